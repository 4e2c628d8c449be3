"""Consumer groups: the list, one group, and one of its members."""
