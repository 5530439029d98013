"""The demo: a year of flights out of New York, through thousands of standing queries of every kind."""
