"""Headrace SDK: the words, the protocol and the clients of a RocketMQ 4.9 message broker.

Layers, top to bottom, each importing only what stands below it:

    client     producers, consumers, admin calls
    remoting   commands over asyncio: connections, servers, pending requests
    protocol   bytes to objects and back, without I/O
    model      words of the domain: messages, queues, flags, names, settings

`headrace.errors` stands below all of them.
"""

__version__ = "0.1.0"
