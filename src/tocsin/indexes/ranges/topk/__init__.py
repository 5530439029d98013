"""Top-k, MIN and MAX over the rows inside ranges and regions."""
