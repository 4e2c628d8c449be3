"""ConsumeQueue: for each topic and queue id, where its messages are in the CommitLog.

`layout` draws the files, `reader` is for everyone, `writer` (with `cursor`, its compiled part) for dispatch alone.
"""
