"""One name server: its configuration; one option of it is changed at a time."""

from collections.abc import Mapping
from typing import Any

from web.config import OwnServer
from web.errors import NotFound
from web.pages.cluster.broker_page import chosen_option, outcome_of
from web.pages.cluster.cluster_reads import ClusterReads
from web.pages.cluster.option_table import OptionForm, checked_change, option_table
from web.paths import path_of
from web.routes import Outcome, View, Visit


class NameServerPage:
    """The page of a name server, by its address."""

    def __init__(self, reads: ClusterReads, own_servers: Mapping[str, OwnServer]) -> None:
        self._reads = reads
        self._own_servers = own_servers

    async def show(self, visit: Visit) -> View:
        """The configuration."""
        address = await self._address(visit)
        config = await self._reads.name_server_config(address)
        own = self._own_servers.get(address)
        page = path_of("cluster", "name-servers", address)
        data: dict[str, Any] = {
            "address": address,
            "is_own": own is not None,
            "page": page,
            **chosen_option(visit, config, own),
        }
        return View("Name server", "cluster/name_server.html", data, [option_table(config, own, page)], address)

    async def change(self, visit: Visit, form: OptionForm) -> Outcome:
        """Sets one option of this name server only. Raises Invalid, NotFound, HeadraceError, QueryFailed."""
        address = await self._address(visit)
        change = checked_change(form)
        admin = self._reads.cluster.admin
        before = await admin.name_server_configs(name_server=address)
        await admin.update_name_server_configs(change, name_server=address)
        after = await admin.name_server_configs(name_server=address)
        return outcome_of(form, before[address], after[address], address, path_of("cluster", "name-servers", address))

    async def _address(self, visit: Visit) -> str:
        """Raises NotFound: no other address is ever connected to."""
        address = visit.path["address"]
        if address not in await self._reads.name_servers():
            raise NotFound(
                "{address} is not one of the name servers", "Choose one from the list.", address=address[:80]
            )
        return address
