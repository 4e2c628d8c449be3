"""Reads the store: messages of a queue, by key, by offset, by time."""
