"""IndexFile: maps a topic and a message key to physical offsets in the CommitLog.

`layout` describes the files, any process may use `reader`, and only dispatch uses `writer` (with `cursor`, its compiled part).
"""
