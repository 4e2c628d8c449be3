"""IndexFile: from a topic and a message key to places in the CommitLog.

`layout` draws the files, `reader` is for everyone, `writer` (with `cursor`, its compiled part) for dispatch alone.
"""
