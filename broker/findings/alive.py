"""Which members of a group are there: a connection may stay open for two minutes after its client has gone."""

from broker.clients.clients import Client, ConsumerGroup

_ALIVE_MS = 65_000  # limit: clients send a heartbeat every 30 s; two of them, and some seconds for a busy machine


def alive(group: ConsumerGroup, now_ms: int) -> list[Client]:
    """The clients that have given a sign of life of late."""
    return [client for client in group.clients.values() if now_ms - client.last_update_ms <= _ALIVE_MS]
