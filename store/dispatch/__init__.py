"""Dispatch: reads the CommitLog on and builds ConsumeQueues and IndexFiles from it.

`walk` is the compiled part that sees every record, `queue_entry` what is unusual about one, `dispatcher` the work of the role and
`daemon` its loop.
"""
