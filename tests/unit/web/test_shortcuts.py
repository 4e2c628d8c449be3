"""The keys that open pages."""

import asyncio
from collections import Counter
from pathlib import Path

from headrace.client.settings import ClientConfig
from web.application import ConsoleSettings, make_console
from web.config import ConsoleConfig
from web.routes import Query, Route


def test_every_page_of_the_menu_has_a_key_of_its_own(tmp_path: Path) -> None:

    async def main() -> list[Route]:
        console = make_console(ConsoleSettings(ConsoleConfig(), ClientConfig("127.0.0.1:1"), tmp_path))
        console.close()
        return list(console.routes)

    routes = asyncio.run(main())
    keys = {route.menu: route.shortcut for route in routes if isinstance(route, Query) and route.menu}
    assert "" not in keys.values(), keys
    assert [key for key, count in Counter(keys.values()).items() if count > 1] == []
    assert {"Dashboard", "API", "API tokens", "Find messages"} <= keys.keys()
