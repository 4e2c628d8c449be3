"""The files of the message store: CommitLog, ConsumeQueue, IndexFile, and the processes that keep them.

The formats are RocketMQ 4.9's, byte for byte. Who may write which file is in docs/architecture.md, section 6.
"""
