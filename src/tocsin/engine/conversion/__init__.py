"""Conversion of given rows and parameters to the declared types; what does not fit is refused."""
