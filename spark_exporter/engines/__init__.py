"""What carries a plan out: each engine calls `range_files.write_range` for every range, somewhere."""
