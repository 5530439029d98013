"""Candidate lists: bounded lists, and a grid that routes rows to those they may enter."""
