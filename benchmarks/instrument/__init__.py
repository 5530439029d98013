"""The instrument: records, repeats, memory, fits, floors, and what was measured before."""
