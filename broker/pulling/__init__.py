"""Pulls and queries: from the frame to the records of the log and their answer; pulls that are held."""
