"""Standing queries on Spark Structured Streaming, exactly once."""
