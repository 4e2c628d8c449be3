from collections.abc import Callable
from typing import Any

import pytest

from ipc.changed_options import HALF_BYTES, has_room
from ipc.instance import Instance
from ipc.publish.broker import BrokerPublisher

Fork = Callable[[Callable[[], object]], Any]


def change(instance: Instance, **texts: str) -> None:
    instance.changed_options_writer().store(texts)
    BrokerPublisher(instance.control).config_version()


def test_changed_options_are_empty_at_first(instance: Instance) -> None:
    assert instance.changed_options().read() == (0, {})


def test_reader_sees_the_last_change(instance: Instance) -> None:
    reader = instance.changed_options()
    change(instance, fileReservedTime="24")
    change(instance, fileReservedTime="12", deleteWhen="04;16")
    assert reader.version == 2
    assert reader.read() == (2, {"fileReservedTime": "12", "deleteWhen": "04;16"})


def test_unpublished_change_is_not_visible(instance: Instance) -> None:
    change(instance, deleteWhen="04")
    instance.changed_options_writer().store({"deleteWhen": "05"})
    assert instance.changed_options().read() == (1, {"deleteWhen": "04"})


def test_reader_never_sees_a_partial_change(instance: Instance, fork: Fork) -> None:
    """One process writes long and short values alternately while this one reads."""
    child = fork(lambda: [change(instance, value=str(number % 7) * (1 + number % 3 * 500)) for number in range(20_000)])
    reader = instance.changed_options()
    seen = set()
    while reader.version < 20_000:
        _, texts = reader.read()
        if texts:
            assert len(set(texts["value"])) == 1
            seen.add(len(texts["value"]))
    assert child.wait() == 0
    assert seen == {1, 501, 1001}


def test_changes_beyond_the_capacity_are_refused(instance: Instance) -> None:
    assert has_room({"key": "x" * (HALF_BYTES - 100)})
    assert not has_room({"key": "x" * HALF_BYTES})
    with pytest.raises(ValueError, match="are available"):
        instance.changed_options_writer().store({"key": "x" * HALF_BYTES})
