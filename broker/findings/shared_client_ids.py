"""Client ids used by more than one client of a group.

Members divide queues by their ids. Two clients with the same id take the same share, and other queues have no owner.

A reconnected client is not two clients: its old connection may stay open for a while, but is silent after the new one has begun. Two
clients are recognised if each has sent a heartbeat well after the other connected, and both within two heartbeat intervals.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from broker.clients.clients import Client, ConsumerGroup, Membership
from broker.findings.finding import Finding
from headrace.model.names import is_system_group
from headrace.remoting.connection import Connection

KIND = "client id shared"

_UNDER_WAY_MS = 5_000  # limit: how long an old connection may still send after the new one has begun


def shared_client_ids(groups: Iterable[ConsumerGroup], now_ms: int) -> Iterator[Finding]:
    """A finding for each id used by several live clients of a group."""
    for group in groups:
        if len(group.clients) < 2 or is_system_group(group.name):
            continue
        by_id: dict[str, list[Client]] = defaultdict(list)
        for client in group.live_clients(now_ms):
            by_id[client.client_id].append(client)
        for client_id, clients in by_id.items():
            if len(clients) < 2:
                continue
            apart = _apart(clients, group.members)
            if len(apart) > 1:
                yield Finding(
                    group.name,
                    KIND,
                    client_id,
                    f"{len(apart)} clients have the id {client_id}",
                    tuple(sorted(f"{client_id} at {client.connection.remote}" for client in apart)),
                    (),
                    "give each client its own instanceName, and in containers or behind a shared address its own clientIP; until then they"
                    " consume the same queues, and some queues are not consumed",
                )


def _apart(clients: list[Client], members: dict[Connection, Membership]) -> list[Client]:
    """Clients of the same id, without old connections of a reconnected client."""

    def outlived(one: Client, other: Client) -> bool:
        return one.last_update_ms > members[other.connection].since_ms + _UNDER_WAY_MS

    return [
        one
        for one in clients
        if any(outlived(one, other) and outlived(other, one) for other in clients if other is not one)
    ]
