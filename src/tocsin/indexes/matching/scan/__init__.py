"""The match scan: every event with every conjunction."""
