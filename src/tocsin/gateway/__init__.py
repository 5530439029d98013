"""The gateway: people and programs subscribe over HTTP, and are told of every change."""
