"""The name server: tells clients which brokers serve a topic.

    handlers  ──► routes      the tables: topics, brokers, clusters, who is alive
              ──► kv_config   namespaces of keys and values, the one thing that is kept on disk
    liveness  ──► routes      drops brokers that have fallen silent
    daemon                    the process: a loop, a listener, the parts put together

Name servers know nothing of each other: brokers register with all of them. Whatever is in the tables comes from brokers and is
gone with the process; within 30 s they register again.
"""
