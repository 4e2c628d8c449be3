"""Appends of messages to the CommitLog, and what an acknowledged send waits for."""
