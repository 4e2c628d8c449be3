"""The CommitLog: every message of every topic, in the order of arrival, in files of one fixed length.

`scanner` knows which bytes are a record, `reader` reads what is published, `tail` wipes what is not, `append` writes.
"""
