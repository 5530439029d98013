"""State of a shard: snapshot and log in the state store, and a warm cache between batches."""
