"""Pulls and queries: from the frame to the records of the log and their response; held pulls."""
