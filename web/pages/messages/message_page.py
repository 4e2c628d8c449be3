"""One message: body, properties, where it is stored, and what is known of each group: an offset beyond it does not mean that it was consumed."""

import asyncio
from collections.abc import Container, Sequence
from typing import Annotated, Any, Final

import msgspec
from sanic import Request

from headrace import HeadraceError, MessageExt, MessageInvalid, MessageQueue
from headrace.errors import RemoteProtocolError
from headrace.model.host import format_host
from headrace.model.names import DLQ_PREFIX, FORBIDDEN_TO_SEND, dlq_topic, is_retry_topic, retry_topic
from headrace.protocol.bodies import ConsumerConnection
from web.errors import Invalid
from web.pages.downloads import Downloads
from web.pages.groups.group_reads import GroupReads
from web.pages.messages.bodies import MOST_DOWNLOADED, MOST_OF_ONE, Body, body_of, describe
from web.pages.messages.copies import copy_for_group, copy_for_topic, original_topic
from web.pages.messages.message_reads import MessageReads
from web.pages.messages.message_search import message_path
from web.paths import path_of
from web.routes import Outcome, Problem, View, Visit
from web.tables.table import Column, Kind, Table

PASSED, WAITING, NO_OFFSET = "offset is beyond it", "not consumed yet", "no offset"
RETRIED, DEAD_LETTER = "sent back for a retry", "dead letter"


_MOST_CLIENTS: Final = 1_000  # limit: names in one form
_MOST_DOWNLOADS: Final = 4  # limit: bodies in memory until they are sent
BODY_TYPE: Final = "application/octet-stream"


class TrackRow(msgspec.Struct, frozen=True):
    """A group that consumes the message's topic."""

    group: str
    state: str | None
    offset: int | None
    """The group's offset of the message's queue."""
    problem: str = ""
    members: int | None = None
    """Connected ones; None: unknown."""


class Push(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A push of a message to one connected client."""

    group: Annotated[str, msgspec.Meta(min_length=1)]
    client: str = ""
    """Empty: the first member that is connected."""


class Resend(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A copy of a message, sent again."""

    group: str = ""
    """The only group that gets the copy; empty: all groups of the original topic."""


_COLUMNS: Final[tuple[Column[TrackRow], ...]] = (
    Column("group", "Group", link=lambda row: path_of("groups", row.group)),
    Column(
        "state",
        "State",
        Kind.WORD,
        link=lambda row: path_of("dead-letters", row.group) if row.state == DEAD_LETTER else None,
        says=lambda row: ("passed (offset {offset})", {"offset": row.offset}) if row.state == PASSED else None,
    ),
    Column("offset", "Consumer offset", Kind.NUMBER),
    Column("members", "Members", Kind.NUMBER, help="Connected clients of the group."),
    Column("problem", "Problem", is_shown_if_any=True),
)


class MessagePage:
    """The page of one message."""

    def __init__(self, reads: MessageReads) -> None:
        self._reads = reads
        self._groups = GroupReads(reads.cluster)
        self._downloads = Downloads(_MOST_DOWNLOADS)

    async def show(self, visit: Visit) -> View:
        """One message."""
        message = await self._reads.by_id(visit.path["id"], visit.arguments.get("topic", ""))
        groups, clients, problems = await self._track(message)
        dead_letter_of = message.topic.removeprefix(DLQ_PREFIX) if message.topic.startswith(DLQ_PREFIX) else ""
        if dead_letter_of:
            clients = _client_ids(await self._reads.cluster.map(self._groups.members, [dead_letter_of]))
        body, body_problems = _body(message)
        data = {
            "id": message.message_id,
            "offset_id": message.offset_message_id,
            "topic": message.topic,
            "original_topic": original_topic(message),
            "is_sendable": _is_sendable(message),
            "dead_letter_of": dead_letter_of,
            "without_members": await self._without_members(dead_letter_of, groups),
            "clients": clients,
            "facts": {
                "Topic": message.topic,
                "Tag": message.tags or "",
                "Keys": " ".join(message.keys),
                "Queue": str(message.queue_id),
                "Offset": str(message.queue_offset),
                "Broker address": format_host(message.store_host),
                "Physical offset": str(message.physical_offset),
                "Sent by": format_host(message.born_host),
                "Failed deliveries": str(message.reconsume_times or ""),
                "Offset message id": message.offset_message_id,
            },
            "born_at": message.born_timestamp,
            "stored_at": message.store_timestamp,
            "properties": dict(sorted(message.properties.items())),
            "body": body,
        }
        table = Table("groups", TrackRow, groups, _COLUMNS, sort="group", empty="No group consumes the topic.")
        return View("Message", "messages/message.html", data, [table], message.message_id, [*body_problems, *problems])

    async def download(self, request: Request, visit: Visit) -> None:
        """Sends the whole body as it is. Raises Invalid, TooOften, HeadraceError."""
        with self._downloads.place():
            message = await self._reads.by_id(visit.path["id"], visit.arguments.get("topic", ""))
            body, is_whole = await asyncio.to_thread(body_of, message, MOST_DOWNLOADED)
            if not is_whole:
                raise Invalid("the body is longer than {most} MiB", "Export the topic.", most=MOST_DOWNLOADED >> 20)
            headers = {
                "Content-Disposition": f'attachment; filename="{message.offset_message_id}.bin"',
                "Content-Length": str(len(body)),
                "Cache-Control": "no-store",
            }
            response: Any = await request.respond(content_type=BODY_TYPE, headers=headers)
            await response.send(body)
            await response.eof()

    async def push(self, visit: Visit, form: Push) -> Outcome:
        """Makes one connected client consume the message now. Raises HeadraceError."""
        message = await self._reads.by_id(visit.path["id"], visit.arguments.get("topic", ""))
        client = form.client or await self._first_member(form.group)
        result = await self._reads.cluster.admin.consume_directly(form.group, client, message.offset_message_id)
        outcome = result.consume_result.value if result.consume_result is not None else "unknown"
        return Outcome(
            "The client answered {result} after {time} ms.",
            {"result": outcome, "time": result.spent_time_mills},
            message_path(message.offset_message_id, message.topic),
            after={"group": form.group, "client": client, "result": outcome},
        )

    async def resend(self, visit: Visit, form: Resend) -> Outcome:
        """Sends a copy to all groups of the original topic, or to one group. Raises Invalid, HeadraceError."""
        message = await self._reads.by_id(visit.path["id"], visit.arguments.get("topic", ""))
        if message.topic.startswith(DLQ_PREFIX):
            raise Invalid("the message is a dead letter", "Resend it on the page of the group's dead letters.")
        if not _is_sendable(message):
            raise Invalid(
                "the topic {original_topic} is reserved for the broker; its messages cannot be resent",
                original_topic=original_topic(message),
            )
        copy = copy_for_group(message, form.group) if form.group else copy_for_topic(message)
        try:
            result = await (await self._reads.cluster.producer()).send(copy)
        except MessageInvalid as error:
            raise Invalid(str(error)) from error
        return Outcome(
            "The copy {id} was sent to the topic {topic}. This page shows the copy.",
            {"id": result.message_id, "topic": copy.topic},
            message_path(result.offset_message_id, copy.topic),
            before={"topic": message.topic, "message_id": message.message_id},
            after={"topic": copy.topic, "message_id": result.message_id},
        )

    async def _first_member(self, group: str) -> str:
        members = await self._groups.members(group)
        if not members.connection_set:
            raise Invalid(
                "the group {group} has no connected member",
                "Start a member, or send a copy: the group consumes the copy when a member connects.",
                group=group,
            )
        return min(one.client_id or "" for one in members.connection_set)

    async def _track(self, message: MessageExt) -> tuple[list[TrackRow], list[str], list[str | Problem]]:
        """The groups that consume the topic, their connected members, and what could not be read. Two requests for each group."""
        cluster, topic = self._reads.cluster, message.topic
        try:
            groups = await cluster.read(("topic groups", topic), lambda admin: admin.topic_groups(topic))
            queues = await cluster.read(("queues", topic), lambda admin: admin.subscribe_queues(topic))
            info = await cluster.read(("cluster info",), lambda admin: admin.cluster_info())
            topics = frozenset(await cluster.read(("topics",), lambda admin: admin.topics()))
        except HeadraceError as error:
            return [], [], [f"{topic}: {error}"]
        stored_at = format_host(message.store_host)
        names = [name for name, data in info.broker_addr_table.items() if stored_at in data.broker_addrs.values()]
        queue = next((one for one in queues if one.broker_name in names and one.queue_id == message.queue_id), None)
        if queue is None:
            problem = Problem(
                "no broker of this cluster has the address {address}, at which the message is stored",
                {"address": stored_at},
            )
            return [], [], [problem]
        answers = await cluster.map(lambda group: self._state(group, queue, message, topics), groups)
        members = await cluster.map(self._groups.members, groups)
        rows = [
            msgspec.structs.replace(
                TrackRow(group, None, None, str(answer)) if isinstance(answer, Exception) else answer,
                members=None if isinstance(found, Exception) else len(found.connection_set),
            )
            for group, answer, found in zip(groups, answers, members, strict=True)
        ]
        return rows, _client_ids(members), []

    async def _without_members(self, dead_letter_of: str, groups: Sequence[TrackRow]) -> list[str]:
        """The groups that get a copy only when a member connects."""
        if not dead_letter_of:
            return sorted(row.group for row in groups if row.members == 0)
        return await self._groups.without_members(dead_letter_of)

    async def _state(self, group: str, queue: MessageQueue, message: MessageExt, topics: Container[str]) -> TrackRow:
        """What is known of the message in a group. Raises HeadraceError."""
        offset = await self._offset(group, queue)
        if offset is None:
            return TrackRow(group, NO_OFFSET, None)
        if offset <= message.queue_offset:
            return TrackRow(group, WAITING, offset)
        copies = [(dlq_topic(group), DEAD_LETTER)]
        if not is_retry_topic(message.topic):  # it would be found itself
            copies.append((retry_topic(group), RETRIED))
        for topic, state in copies:
            if topic in topics and await self._reads.has_copy(topic, message):
                return TrackRow(group, state, offset)
        return TrackRow(group, PASSED, offset)

    async def _offset(self, group: str, queue: MessageQueue) -> int | None:
        return await self._reads.cluster.read(
            ("offset", group, queue), lambda admin: admin.consumer_offset(group, queue)
        )


def _client_ids(answers: Sequence[ConsumerConnection | Exception]) -> list[str]:
    """The connected members of groups, which the form of a push offers. Of groups that could not be read none."""
    members = [one for answer in answers if not isinstance(answer, Exception) for one in answer.connection_set]
    return sorted({one.client_id for one in members if one.client_id})[:_MOST_CLIENTS]


def _body(message: MessageExt) -> tuple[Body, list[str]]:
    """The body; as stored, with the reason, if it cannot be decompressed."""
    try:
        beginning, is_whole = body_of(message, MOST_OF_ONE)
    except RemoteProtocolError as error:
        return describe(message.body[:MOST_OF_ONE]), [str(error)]
    return describe(beginning, is_whole=is_whole), []


def _is_sendable(message: MessageExt) -> bool:
    return original_topic(message) not in FORBIDDEN_TO_SEND and not message.topic.startswith(DLQ_PREFIX)
