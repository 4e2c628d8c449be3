"""Dispatch: reads the CommitLog on and builds ConsumeQueues and IndexFiles from it.

`walk` is the compiled part that handles every record, `unusual_entries` handles unusual ones, `dispatcher` is the work of the role and
`daemon` its loop.
"""
