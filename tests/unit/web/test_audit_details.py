"""Values before and after changes in the audit log: valid JSON, whole for large resets, and bounded together."""

import contextlib
import json
from pathlib import Path

import pytest

from web.accounts import audit_log
from web.accounts.audit_log import LONGEST_DETAIL, AuditLog
from web.accounts.database import open_database


def test_offsets_of_a_reset_of_a_thousand_queues_are_whole(tmp_path: Path) -> None:
    offsets = {f"a-broker-with-a-long-name-{queue % 10}/{queue}": (1 << 40) + queue for queue in range(1_000)}
    with contextlib.closing(open_database(tmp_path)) as database:
        audit = AuditLog(database, lambda: 1)
        audit.add("ann", "", "group.reset", "billing", before=offsets, after=offsets)
        (entry,) = audit.entries()
    assert json.loads(entry.before) == json.loads(entry.after) == offsets


def test_longer_value_stays_valid_json(tmp_path: Path) -> None:
    with contextlib.closing(open_database(tmp_path)) as database:
        audit = AuditLog(database, lambda: 1)
        audit.add("ann", "", "x", before={"text": '"\\' * LONGEST_DETAIL})
        (entry,) = audit.entries()
    assert len(entry.before) <= LONGEST_DETAIL
    assert json.loads(entry.before)["length"] > LONGEST_DETAIL


def test_oldest_entries_are_dropped_when_values_take_too_much_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_log, "_DETAILS_KEPT", 100_000)
    with contextlib.closing(open_database(tmp_path)) as database:
        audit = AuditLog(database, lambda: 1)
        audit.add_refused("eve", "", "login", "", "wrong password")
        for _ in range(200):
            audit.add("ann", "", "x", before="b" * 1_998)
        changes = [entry for entry in audit.entries() if entry.user == "ann"]
        assert len(changes) == 51  # those that fit at the last trim, and one more
        assert [entry.user for entry in audit.entries()][-1] == "eve"
