"""Users, the first login's link, limits of logins and the audit log, without a server."""

import asyncio
import contextlib
import sqlite3
import stat
import time
from pathlib import Path
from typing import Any

import argon2
import pytest

from web.accounts import audit_log, database, login_limits, time_zones
from web.accounts.audit_log import AuditLog
from web.accounts.database import open_database
from web.accounts.first_login import LIFETIME_MS, FirstLogin
from web.accounts.login_limits import (
    FAILURES_OF_ADDRESS,
    FAILURES_OF_NAME,
    WINDOW_OF_ADDRESS_MS,
    WINDOW_OF_NAME_MS,
    LoginLimits,
    network_of,
)
from web.accounts.passwords import Passwords
from web.accounts.sessions import Sessions
from web.accounts.time_zones import SERVER, server_zone, zone_of
from web.accounts.users import Users, check_password
from web.errors import DatabaseUnusable, Invalid, NotFound
from web.routes import Access

QUICK = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
PASSWORD = "correct horse battery"


def test_login_with_a_password_that_was_changed_meanwhile_fails(tmp_path: Path) -> None:
    class Slow(Passwords):
        async def is_right(self, stored: str | None, password: str) -> bool:
            is_right = await super().is_right(stored, password)
            await users.set_password("alice", "another password")
            return is_right

    async def log_in() -> Any:
        await users.add("alice", PASSWORD, Access.ADMIN)
        return await users.log_in("alice", PASSWORD)

    with contextlib.closing(open_database(tmp_path)) as opened:
        users = Users(opened, Slow(QUICK), lambda: 0)
        assert asyncio.run(log_in()) is None


# ---- the first login's link


def test_link_ends_after_a_day_and_is_replaced_at_the_next_start(tmp_path: Path) -> None:
    now = [int((tmp_path.stat().st_mtime + 60) * 1000)]
    first = FirstLogin(tmp_path, "http://x/", lambda: now[0])
    token = first.make().partition("token=")[2]
    assert first.is_right(token)
    now[0] += LIFETIME_MS + 60_000
    assert not first.is_right(token)
    again = FirstLogin(tmp_path, "http://x/", lambda: now[0])
    assert again.make().partition("token=")[2] != token


def test_claimed_link_is_right_for_nobody_else(tmp_path: Path) -> None:
    first = FirstLogin(tmp_path, "http://x/", lambda: 0)
    token = first.make().partition("token=")[2]
    first.claim()
    assert not first.is_right(token)
    first.release()
    assert first.is_right(token)
    assert not first.is_right("é")


# ---- limits of logins


def test_own_login_does_not_reset_the_attempts_at_another_user() -> None:
    limits = LoginLimits(lambda: 0)
    for _ in range(FAILURES_OF_ADDRESS - 1):
        limits.failed("192.0.2.7", "admin")
        limits.failed("192.0.2.7", "viewer")
        limits.succeeded("192.0.2.7", "viewer")
    assert limits.wait_ms("192.0.2.7", "admin") == 0
    limits.failed("192.0.2.7", "admin")
    assert limits.wait_ms("192.0.2.7", "admin") == WINDOW_OF_ADDRESS_MS


def test_strangers_cannot_lock_a_user_out_of_an_address_that_is_known() -> None:
    limits = LoginLimits(lambda: 0)
    limits.failed("192.0.2.7", "admin")
    limits.succeeded("192.0.2.7", "admin")
    for number in range(FAILURES_OF_NAME):
        limits.failed(f"198.51.100.{number}", "admin")
    assert limits.wait_ms("203.0.113.9", "admin") == WINDOW_OF_NAME_MS
    assert limits.wait_ms("192.0.2.7", "admin") == 0


def test_logins_at_a_provider_do_not_drive_out_the_addresses_that_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login_limits, "_MOST_KNOWN", 2)
    limits = LoginLimits(lambda: 0)
    limits.failed("192.0.2.7", "admin")
    limits.succeeded("192.0.2.7", "admin")
    for number in range(FAILURES_OF_NAME):
        limits.failed(f"198.51.100.{number}", None)
        limits.take_back(f"198.51.100.{number}", None)
        limits.failed(f"203.0.113.{number}", "admin")
    assert limits.wait_ms("192.0.2.7", "admin") == 0
    assert limits.wait_ms("198.51.100.1", None) == 0


def test_failures_are_forgotten_after_their_window() -> None:
    now = [0]
    limits = LoginLimits(lambda: now[0])
    for _ in range(FAILURES_OF_ADDRESS):
        limits.failed("192.0.2.7", "admin")
    now[0] = WINDOW_OF_ADDRESS_MS - 1
    assert limits.wait_ms("192.0.2.7", "admin") == 1
    now[0] += 1
    assert limits.wait_ms("192.0.2.7", "admin") == 0


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),  # on a socket for both versions, all of IPv4 is in one /64
        ("2001:db8::1", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
    ],
)
def test_network_of_an_address(address: str, network: str) -> None:
    assert network_of(address) == network


# ---- the database


def test_refusals_never_drive_changes_out_of_the_audit_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_log, "_KEPT", 50)
    monkeypatch.setattr(audit_log, "_REFUSED_KEPT", 20)
    with contextlib.closing(open_database(tmp_path)) as opened:
        log = AuditLog(opened, lambda: 0)
        for number in range(40):
            log.add("alice", "", "topic.create", f"T{number}")
        for _ in range(1_000):
            log.add_refused("eve", "", "topic.create", "T", "eve is viewer")
        entries = log.entries()
        assert len([entry for entry in entries if entry.outcome == "done"]) == 40
        assert 20 <= len([entry for entry in entries if entry.outcome.startswith("refused: ")]) < 120
        for number in range(200):
            log.add("alice", "", "topic.create", f"T{number}")
        assert 50 <= len([entry for entry in log.entries() if entry.outcome == "done"]) < 150


def test_database_of_the_first_version_is_upgraded_and_keeps_its_users(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "console.db")) as old:
        old.executescript(f"{database._SCHEMAS[0]} PRAGMA user_version = 1;")
        old.execute("INSERT INTO users VALUES ('alice', 3, 'hash', 1, 2)")
        old.execute("INSERT INTO audit VALUES (1, 5, 'alice', '', 'login', '', 'done', '', '')")
        old.commit()
    with contextlib.closing(open_database(tmp_path)) as now:
        assert [user.name for user in Users(now, Passwords(QUICK), lambda: 0).list()] == ["alice"]
        assert [entry.action for entry in AuditLog(now, lambda: 0).entries()] == ["login"]
        assert now.execute("PRAGMA user_version").fetchone() == (4,)


def test_time_zone_of_a_user_is_that_of_all_sessions_and_must_be_known(tmp_path: Path) -> None:
    with contextlib.closing(open_database(tmp_path)) as database:
        users, sessions = Users(database, Passwords(QUICK), lambda: 5), Sessions(database, lambda: 5)
        asyncio.run(users.add("alice", "correct horse battery", Access.VIEWER))
        tokens = [sessions.open("alice", "", "") for _ in range(2)]
        assert [session.zone for session in sessions.list()] == ["", ""]
        for zone in ("Asia/Shanghai", "UTC", SERVER, ""):
            users.set_zone("alice", zone)
            found = [sessions.find(token) for token in tokens]
            assert [session and session.zone for session in found] == [zone, zone]
        for unknown in ("Mars/Olympus_Mons", "../etc/passwd", "utc", "localtime"):
            with pytest.raises(Invalid, match="is unknown"):
                users.set_zone("alice", unknown)
        with pytest.raises(NotFound):
            users.set_zone("nobody", "UTC")


@pytest.mark.parametrize(
    ("variable", "expected"), [("Asia/Kolkata", "Asia/Kolkata"), (":Europe/Paris", "Europe/Paris")]
)
def test_zone_of_the_server_is_that_of_its_environment(
    monkeypatch: pytest.MonkeyPatch, variable: str, expected: str
) -> None:
    monkeypatch.setenv("TZ", variable)
    assert zone_of(SERVER) == expected
    assert (zone_of(""), zone_of("UTC")) == ("", "UTC")


def test_zone_of_the_server_is_that_of_its_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TZ", raising=False)
    (tmp_path / "zoneinfo" / "America").mkdir(parents=True)
    (tmp_path / "zoneinfo" / "America" / "New_York").touch()
    (tmp_path / "localtime").symlink_to(tmp_path / "zoneinfo" / "America" / "New_York")
    monkeypatch.setattr(time_zones, "_LOCAL", tmp_path / "localtime")
    assert server_zone() == "America/New_York"


def test_database_is_private_and_not_opened_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "console.db").touch(0o644)
    open_database(tmp_path).close()
    assert stat.S_IMODE((tmp_path / "console.db").stat().st_mode) == 0o600
    other = tmp_path / "other"
    other.mkdir()
    (other / "console.db").symlink_to(tmp_path / "console.db")
    with pytest.raises(DatabaseUnusable):
        open_database(other)


@pytest.mark.parametrize(
    "password",
    [
        "password1234", "P@ssw0rd2024!", "123456789012", "098765432109", "qwertyuiopas", "1q2w3e4r5t6y", "1qaz2wsx3edc", "aaaaaaaaaaaa",
        "abcabcabcabc", "passwordpassword", "password_password", "Administrator1", "headrace1234", "adminadminadmin", "ann.ann.ann.", "Summer2024!!",
        "x1" * 500,
    ],
)  # fmt: skip
def test_common_passwords_are_refused_however_they_are_decorated(password: str) -> None:
    with pytest.raises(Invalid, match="too common"):
        check_password(password, "ann")


@pytest.mark.parametrize(
    "password",
    [
        "correct horse battery",
        "k9#vLw2!xQz7",
        "9f8a7b6c5d4e",
        "8315-2094-7713-02",
        "admin of the northern lights",
        "Rhabarber-Lokomotive",
    ],
)
def test_other_passwords_of_twelve_characters_are_accepted(password: str) -> None:
    check_password(password, "ann")
    with pytest.raises(Invalid, match="characters"):
        check_password(password[:11], "ann")


def test_longest_password_is_checked_in_no_time() -> None:
    began_s = time.process_time()
    check_password(("password1234" * 86)[:1_000] + "#vLw2", "ann")
    assert time.process_time() - began_s < 1
