"""The ha role: replication of the CommitLog, byte for byte, in RocketMQ's protocol (store spec, section 9).

Every broker listens for slaves; one whose role is SLAVE also copies its master's log, and is then the log's writer.
"""
