"""The recover role: makes a store consistent from disk alone, before any writer runs, and gives every cell its first value.

The reasoning is in docs/storage/crash-safety.md.
"""
