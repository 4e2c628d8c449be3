"""ConsumeQueue: the locations of messages in the CommitLog, for each topic and queue id.

`headrace.protocol.consume_queue_layout` has the format of the files (the exporter reads them, too). Any process may use `reader`, and only dispatch uses `writer` (with `cursor`, its compiled part).
"""
