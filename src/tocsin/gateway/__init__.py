"""The gateway: people and programs subscribe over HTTP and receive every change."""
