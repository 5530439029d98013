"""Starting: a wheel's environment, scripts of every form of statement, first micro-batches."""
