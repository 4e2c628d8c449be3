"""ConsumeQueue: the locations of messages in the CommitLog, for each topic and queue id.

`layout` describes the files, any process may use `reader`, and only dispatch uses `writer` (with `cursor`, its compiled part).
"""
