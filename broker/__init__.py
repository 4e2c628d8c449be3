"""The broker process: requests of clients and tools, topics, groups, consumer offsets, registration.

One composition root (`broker.py`) creates the parts and passes each what it uses: a table, a clock, a function. No class receives
the whole broker. The broker is the only writer of `config/*.json` and, as master, of the CommitLog.
"""
