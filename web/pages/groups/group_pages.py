"""GroupPages: the pages of consumer groups."""

from web.cluster.cluster import Cluster
from web.pages.groups.group_list import GroupList
from web.pages.groups.group_page import GroupPage
from web.pages.groups.group_reads import GroupReads
from web.pages.groups.member_page import MemberPage
from web.routes import Query, Route

SECTION = "Consumer"


class GroupPages:
    """The pages of consumer groups."""

    def __init__(self, cluster: Cluster) -> None:
        self._reads = GroupReads(cluster)

    def routes(self) -> list[Route]:
        """What it serves."""
        member = "/groups/<group:str>/members/<client:str>"
        return [
            Query("/groups", GroupList(self._reads).show, "List the consumer groups.", menu=SECTION, shortcut="c"),
            Query("/groups/<group:str>", GroupPage(self._reads).show, "Show a consumer group.", section=SECTION),
            Query(member, MemberPage(self._reads).show, "Show a member of a group.", section=SECTION),
        ]
