"""What is noticed of consumer groups, and where it is shown."""

import time
from collections.abc import Iterator

from broker.notices.board import NoticeBoard
from broker.notices.differing_members import differing_members
from broker.notices.lost_messages import LostMessages
from broker.notices.notice import Notice
from broker.notices.shared_client_ids import shared_client_ids
from broker.notices.unowned_queues import unowned_queues
from broker.parts.settings import Settings
from broker.parts.tables import Tables
from headrace.model import permission
from ipc.noticed import Noticed


def notice_board(settings: Settings, tables: Tables, page: Noticed, lost: LostMessages) -> NoticeBoard:
    """The board that looks at the tables and is shown on the page."""
    topics, groups, clients, visits = tables.topics, tables.groups, tables.clients, tables.visits

    def read_queues(name: str) -> int:
        topic = topics.find(name)
        return topic.read_queue_count if topic is not None and permission.is_readable(topic.permission) else 0

    def find() -> Iterator[Notice]:
        online = clients.consumer_groups()
        tables.stats.gather()
        visits.keep_only(online)
        now_ms = time.time_ns() // 1_000_000
        yield from lost.notices()
        yield from differing_members(online.values(), now_ms)
        yield from shared_client_ids(online.values(), now_ms)
        # Members of a slave's groups consume from the master.
        if not settings.store.is_slave:
            known = groups.all()
            served = [group for group in online.values() if group.name not in known or known[group.name].consume_enable]
            yield from unowned_queues(served, read_queues, visits.of, time.monotonic())

    return NoticeBoard(find, page.store)
