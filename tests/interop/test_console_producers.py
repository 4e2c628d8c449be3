"""The page of producers over real clusters, Apache's and ours, with the Java client."""

from typing import Any

from support.client import Client
from support.console import Browser
from support.servers import wait_until


def test_connected_java_producer_is_listed_with_its_address_and_version(browser: Browser, client: Client) -> None:
    client.create_topic("PagedProducer", 1)
    client.send("PagedProducer", 1, group="paged-producer")

    def listed() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = browser.read("/producers?filter=paged-producer")["producers"]["rows"]
        return found

    # Brokers learn of a producer by its first heartbeat.
    wait_until(listed, 90, "the producer")
    (row,) = listed()
    assert (row["group"], row["language"], row["kind"]) == ("paged-producer", "JAVA", "normal")
    assert row["client"]
    assert row["addresses"][0].startswith("127.0.0.1:")
    assert row["version"].startswith("V4_9")
    assert row["last_seen"] > 0
    page = browser.answered("/producers")
    assert page.status == 200, page.cause
    assert "paged-producer" in browser.answered("/producers?format=csv").text
