"""Producers: from a message to an acknowledged send."""
