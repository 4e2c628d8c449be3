"""The console: pages and an HTTP API for operators, in one process (the role `console`).

Rooms, from top to bottom; each imports only those below it (`.importlinter`):

    daemon        the process: listener, loop, heartbeat, stop
    application   the composition root: which rooms are served
    serving       turns declared routes into HTTP: pages, tables, JSON, errors
    pages         one module for each page: queries and changes, as data
    metrics, health
                  what machines ask
    alerts        rules on every sample, channels, and what fired when
    history       thirty days of figures, and the forecast of the disk
    sampling      figures of all brokers, taken every ten seconds and shared
    cluster       reads a cluster through headrace's Admin
    routes        what a room declares: Query, Change, View, Visit
    tables        typed rows as HTML, CSV, JSON Lines and JSON
    config …      options, errors, files, the listener

It imports `headrace.client`, `headrace.model` and the read side of `ipc`, never broker, store or appliance.
"""
