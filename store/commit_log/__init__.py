"""The CommitLog: every message of every topic, in the order of arrival, in files of one fixed length.

`record_check` validates a record, `scanner` iterates over records, `reader` reads what is published, `tail` wipes what is not, `append` writes.
"""
