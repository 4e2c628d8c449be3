"""The console on Apache's name server and broker: the pages of topics, as on our own."""

from pathlib import Path

from support.console import RunningConsole
from support.reference import Reference
from support.servers import wait_until


def test_topics_of_apache_s_cluster_are_listed_created_changed_and_deleted(tmp_path: Path) -> None:
    with (
        Reference(tmp_path / "apache") as apache,
        RunningConsole(tmp_path / "console", apache.name_server, api_timeout=30) as console,
    ):
        admin = console.administrator()
        wait_until(lambda: admin.get("/topics?kind=all").status == 200, 60, "the list of topics")
        form = {"topic": "ByTheConsole", "read_queues": "3", "write_queues": "2", "permission": "RW"}
        made = admin.send("/topics", form)
        assert made.status == 303, made.cause

        def row() -> dict[str, object] | None:
            """The topic in the list; empty if it is not there, None if the list cannot be read."""
            answer = admin.get("/api/v1/topics?filter=ByTheConsole")
            return None if answer.status != 200 else next(iter(answer.json()["topics"]["rows"]), {})

        def has(**values: object) -> bool:
            found = row() or {}
            return all(found.get(name) == value for name, value in values.items())

        wait_until(
            lambda: has(messages=0, read_queues=3, write_queues=2, problem=""), 60, "the topic with its statistics"
        )
        changed = admin.send("/topics/ByTheConsole", {"read_queues": "4", "write_queues": "4", "permission": "R"})
        assert changed.status == 303, changed.cause
        wait_until(lambda: has(permission="R--"), 60, "the change")
        page = admin.get("/topics/ByTheConsole")
        assert page.status == 200, page.cause
        assert admin.get("/").status == 200
        deleted = admin.send("/topics/ByTheConsole/delete", {"confirm": "ByTheConsole"})
        assert deleted.status == 303, deleted.cause
        wait_until(lambda: row() == {}, 60, "the topic to be gone")
