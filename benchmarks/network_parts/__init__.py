"""Parts of the network benchmark."""
