"""HTTP and WebSockets: the application, its endpoints, and the server process."""
