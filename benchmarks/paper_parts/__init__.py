"""What the program of papers is made of: one file a paper, its figures and tables as sweeps."""
