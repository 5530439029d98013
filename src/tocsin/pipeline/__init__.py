"""The pipeline room: standing queries on Spark Structured Streaming, exactly once."""
