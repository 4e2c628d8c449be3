"""Sends: from the frame to the log and its answer."""
