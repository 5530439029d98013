"""Access predicates: an event visits the conjunctions whose most selective predicate it meets."""
