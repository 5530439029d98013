"""What is on disk: the write-ahead log, snapshots, and the file operations that both use."""
