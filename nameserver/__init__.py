"""The name server: tells clients which brokers serve a topic.

    handlers  ──► routes      the tables: topics, brokers, clusters, who is alive
              ──► kv_config   namespaces of keys and values, the one thing that is kept on disk
    liveness  ──► routes      drops brokers that have fallen silent
    daemon                    the process: a loop, a listener, the parts put together

Name servers are independent of each other: brokers register at all of them. The tables contain only data from brokers and are
lost with the process; within 30 s brokers register again.
"""
