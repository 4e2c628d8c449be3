"""ClusterPages: what this room serves."""

from collections.abc import Mapping

from web.cluster.cluster import Cluster
from web.config import OwnServer
from web.pages.cluster.broker_page import BrokerPage
from web.pages.cluster.cluster_list import ClusterList
from web.pages.cluster.cluster_reads import ClusterReads
from web.pages.cluster.name_server_page import NameServerPage
from web.pages.cluster.option_table import OPTION_ARGUMENTS, OptionForm, secret_fields
from web.pages.cluster.replication import ReplicationPage
from web.pages.cluster.writes import StopForm, Writes
from web.routes import Access, Change, Query, Route
from web.sampling.log_ends import LogEnds

_MENU = "Cluster"


class ClusterPages:
    """The pages of the cluster."""

    def __init__(self, cluster: Cluster, own_servers: Mapping[str, OwnServer], log_ends: LogEnds) -> None:
        reads = ClusterReads(cluster)
        self._list = ClusterList(reads)
        self._broker = BrokerPage(reads, own_servers)
        self._name_server = NameServerPage(reads, own_servers)
        self._writes = Writes(reads, own_servers)
        self._replication = ReplicationPage(reads, log_ends)

    def routes(self) -> list[Route]:
        """What it serves."""
        broker, name_server = "/cluster/brokers/<address:str>", "/cluster/name-servers/<address:str>"
        writes = "/cluster/writes/<broker:str>"
        return [
            Query("/cluster", self._list.show, "List the brokers and name servers.", menu=_MENU, shortcut="b"),
            Query(
                "/replication",
                self._replication.show,
                "Show masters and slaves, and how far slaves are behind.",
                menu="Replication",
                shortcut="s",
            ),
            Query(
                broker,
                self._broker.show,
                "Show a broker's statistics and configuration.",
                section=_MENU,
                arguments=OPTION_ARGUMENTS,
            ),
            Query(
                name_server,
                self._name_server.show,
                "Show a name server's configuration.",
                section=_MENU,
                arguments=OPTION_ARGUMENTS,
            ),
            Query(writes, self._writes.show, "Show whether a broker accepts messages.", section=_MENU),
            Change(
                broker,
                OptionForm,
                self._broker.change,
                "broker.configure",
                "Change an option of a broker.",
                Access.ADMIN,
                secrets=secret_fields,
            ),
            Change(
                name_server,
                OptionForm,
                self._name_server.change,
                "name_server.configure",
                "Change an option of a name server.",
                Access.ADMIN,
                secrets=secret_fields,
            ),
            Change(f"{writes}/stop", StopForm, self._writes.stop, "broker.stop_writes", "Stop writes to a broker."),
            Change(f"{writes}/allow", StopForm, self._writes.allow, "broker.allow_writes", "Allow writes again."),
        ]
