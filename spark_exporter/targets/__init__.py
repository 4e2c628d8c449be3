"""The tables that rows are written to, in three formats, and the lock on them."""
