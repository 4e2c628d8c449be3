"""Which ranges of the log an export reads."""
