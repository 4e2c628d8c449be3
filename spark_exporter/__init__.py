"""The exporter: CommitLog files into Parquet, Iceberg and Delta tables, exactly once, without a broker.

It reads the store's files as files, of ours or of Apache RocketMQ 4.x and 5.x, and never writes to them. Nothing here needs the appliance:
it may run on any machine that sees the files. Needs the extra `[export]` (pyarrow).

    schema            what a row is
    segments          the files of a CommitLog; where the log ends
    record_columns    records to columns, the hot module; property_columns  their properties
    range_scan        a range of the log to Arrow batches, with what is damaged in it
    plan              a store to ranges
    body_schema       JSON bodies as a typed column
    export            the whole job, with an engine and a sink
    read_log          a log as Arrow batches, without a target
"""
