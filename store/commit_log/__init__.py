"""The CommitLog: every message of every topic, in the order of arrival, in files of one fixed length.

`record_check` knows which bytes are a record, `scanner` walks over them, `reader` reads what is published, `tail` wipes what is not, `append` writes.
"""
