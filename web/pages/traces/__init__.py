"""Traces: what producers and consumers with message trace report about a message."""
