"""The ha role: replication of the CommitLog, byte for byte, in RocketMQ's protocol (store spec, section 9).

Every broker listens for slaves; with the role SLAVE, ha also copies the master's log and is then the log writer.
"""
