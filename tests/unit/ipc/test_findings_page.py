from collections.abc import Callable
from typing import Any

from ipc.instance import Instance

Fork = Callable[[Callable[[], object]], Any]


def test_findings_are_empty_at_first(instance: Instance) -> None:
    assert instance.findings_page().read() == []


def test_reader_sees_the_last_findings(instance: Instance) -> None:
    page, visitor = instance.findings_page(), Instance.open(instance.store_path)
    assert page.store([{"group": "größe"}]) == 0
    assert page.store([{"group": "a"}, {"group": "b"}]) == 0
    assert visitor.findings_page().read() == [{"group": "a"}, {"group": "b"}]
    assert page.store([]) == 0
    assert visitor.findings_page().read() == []
    visitor.close()


def test_findings_beyond_the_capacity_are_counted(instance: Instance) -> None:
    page = instance.findings_page()
    notices = [{"group": f"{number:05}", "what": "x" * 1000} for number in range(100)]
    left_out = page.store(notices)
    assert 0 < left_out < 100
    assert page.read() == notices[: 100 - left_out]


def test_reader_never_sees_partial_findings(instance: Instance, fork: Fork) -> None:
    """One process writes long and short lists alternately while this one reads."""
    page = instance.findings_page()

    def write() -> None:
        for number in range(1, 5001):
            page.store([{"number": number}] * (number % 50 + 1))

    child = fork(write)
    number = 0
    while number < 5000:
        seen = page.read()
        number = seen[0]["number"] if seen else 0
        assert seen == [{"number": number}] * (number % 50 + 1 if seen else 0)
    assert child.wait() == 0
