"""The page of a group names a member that was killed."""

import asyncio
import re
from pathlib import Path

import pytest

from support.appliance import Appliance
from support.console import Browser, RunningConsole
from support.consuming import Gathered, create_topic, push, send
from support.servers import wait_until

pytestmark = pytest.mark.slow


def test_member_that_left_is_named_with_its_address_and_queues(tmp_path: Path) -> None:
    with Appliance(tmp_path / "data", settings={"mappedFileSizeCommitLog": "16777216"}) as appliance:

        async def consume() -> str:
            gathered = Gathered()
            await create_topic(appliance, "Orders", 1)
            bodies = await send(appliance, "Orders", 1)
            async with push(appliance, "billing", "Orders", gathered):
                await gathered.receive(bodies)
                console = await asyncio.to_thread(
                    RunningConsole, tmp_path / "console", appliance.name_server, api_timeout=30
                )
                consoles.append(console)
                return await asyncio.to_thread(watched, console)

        def watched(console: RunningConsole) -> str:
            browser = console.administrator()
            browsers.append(browser)
            recorded = "/api/v1/history/names?prefix=group.lag/billing"
            wait_until(lambda: browser.get(recorded).json()["total"] == 1, 60, "a sample with the group")
            page = browser.read("/groups/billing")
            assert page["left"]["rows"] == []
            return str(page["members"]["rows"][0]["client"])

        consoles: list[RunningConsole] = []
        browsers: list[Browser] = []
        try:
            client = asyncio.run(consume())
            [browser] = browsers
            wait_until(lambda: browser.read("/groups/billing")["left"]["total"] == 1, 60, "the member has left")
            [row] = browser.read("/groups/billing")["left"]["rows"]
            assert row["client"] == client
            assert [re.sub(r" \S+ ", " broker ", queue) for queue in row["queues"]] == ["Orders broker 0"]
            assert row["address"].startswith("127.0.0.1:")
            text = browser.get("/groups/billing").text
            assert client in text[text.index("Members that left") :]
        finally:
            for console in consoles:
                console.close()
