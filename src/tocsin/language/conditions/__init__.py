"""WHERE: from parsed conditions to ranges, regions, row filters and predicates of matches."""
