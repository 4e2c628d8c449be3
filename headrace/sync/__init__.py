"""The clients without `await`: the same names, parameters and results as in `headrace`, for threads and plain scripts.

    from headrace.sync import Message, Producer

    with Producer("orders", "127.0.0.1:9876") as producer:
        result = producer.send(Message("Orders", b"hello"))
        future = producer.send_nowait(Message("Orders", b"at once"))     # a concurrent.futures.Future

One engine, an event loop in a background thread, serves all clients of a process; a client may be shared by threads. Functions that a client calls
(a transaction's check, handlers) run in threads of their own, and may use clients themselves.
"""

from headrace.sync import clients, names
from headrace.sync.clients import *  # noqa: F403
from headrace.sync.names import *  # noqa: F403
from headrace.sync.pull_scheduler import PullScheduler as PullScheduler
from headrace.sync.transaction import Transaction as Transaction

__all__ = sorted({*clients.__all__, *names.__all__, "PullScheduler", "Transaction"})  # noqa: PLE0605 (two lists and two names)
