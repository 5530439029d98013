"""Parts of the gateway's benchmark."""
