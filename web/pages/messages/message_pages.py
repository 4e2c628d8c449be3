"""MessagePages: the pages of messages."""

import time
from typing import Final

from web.cluster.cluster import Cluster
from web.pages.messages.message_page import BODY_TYPE, MessagePage, Push, Resend
from web.pages.messages.message_reads import MessageReads
from web.pages.messages.message_search import SEARCH_ARGUMENTS, MessageSearch
from web.routes import Access, Change, Query, Raw, Route
from web.sampling.sampler import Sampler

SECTION = "Find messages"
_TOPIC: Final = {
    "topic": "Its topic; required for a unique id in a system topic, or if there are more than 200 topics."
}


class MessagePages:
    """The pages of messages."""

    def __init__(self, cluster: Cluster, sampler: Sampler) -> None:
        self._reads = MessageReads(cluster, sampler)

    def routes(self) -> list[Route]:
        """What it serves."""
        page = MessagePage(self._reads)
        search = MessageSearch(self._reads, lambda: time.time_ns() // 1_000_000)
        return [
            Query(
                "/messages",
                search.show,
                "Find messages by id, key or time.",
                menu=SECTION,
                shortcut="m",
                arguments=SEARCH_ARGUMENTS,
            ),
            Query(
                "/messages/<id:str>",
                page.show,
                "Show a message.",
                section=SECTION,
                arguments=_TOPIC,
            ),
            Raw(
                "/messages/<id:str>/body",
                page.download,
                Access.VIEWER,
                summary="Download the body of a message.",
                arguments=_TOPIC,
                answers=(BODY_TYPE,),
            ),
            Change(
                "/messages/<id:str>/push",
                Push,
                page.push,
                "message.push",
                "Make one connected client consume a message.",
            ),
            Change("/messages/<id:str>/resend", Resend, page.resend, "message.resend", "Send a copy of a message."),
        ]
