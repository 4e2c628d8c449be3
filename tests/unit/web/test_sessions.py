"""Sessions: when they end, and what is recorded of it."""

import asyncio
import contextlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import argon2
import pytest

from support.console import PASSWORD, RunningConsole
from web.accounts.database import open_database
from web.accounts.passwords import Passwords
from web.accounts.sessions import Sessions
from web.accounts.users import Users
from web.routes import Access

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
NOW_MS = 1_764_000_000_000
QUICK = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """Of a console with one user."""
    with contextlib.closing(open_database(tmp_path)) as database:
        asyncio.run(Users(database, Passwords(QUICK), lambda: NOW_MS).add("olga", PASSWORD, Access.VIEWER))
        yield database


def test_session_ends_after_twelve_hours_without_use(database: sqlite3.Connection) -> None:
    now = [NOW_MS]
    sessions = Sessions(database, lambda: now[0])
    token = sessions.open("olga", "192.0.2.7", "Firefox")
    for _ in range(3):  # each use counts from the last
        now[0] += 12 * HOUR_MS
        assert sessions.find(token) is not None
        assert len(sessions.list()) == 1
    now[0] += 12 * HOUR_MS + 1
    assert sessions.find(token) is None
    assert sessions.list() == []


def test_session_ends_seven_days_after_the_login_however_it_is_used(database: sqlite3.Connection) -> None:
    now = [NOW_MS]
    sessions = Sessions(database, lambda: now[0])
    token = sessions.open("olga", "192.0.2.7", "Firefox")
    for _ in range(7 * 24):
        now[0] += HOUR_MS
        assert sessions.find(token) is not None
    now[0] += 1
    assert sessions.find(token) is None
    assert sessions.list() == []


def test_next_login_removes_sessions_that_have_ended(database: sqlite3.Connection) -> None:
    now = [NOW_MS]
    sessions = Sessions(database, lambda: now[0])
    sessions.open("olga", "192.0.2.7", "Firefox")
    now[0] += 12 * HOUR_MS + 1
    sessions.open("olga", "192.0.2.8", "Firefox")
    assert database.execute("SELECT address FROM sessions").fetchall() == [("192.0.2.8",)]


@pytest.mark.slow
def test_ended_session_is_recorded_with_its_user(tmp_path: Path) -> None:
    with RunningConsole(tmp_path) as console:
        admin, olga = console.administrator(), console.browser()
        assert admin.send("/users", {"user": "olga", "password": PASSWORD, "role": "viewer"}, "/users").status == 303
        olga.log_in("olga", PASSWORD)
        [session] = admin.read("/users/olga")["sessions"]["rows"]
        assert admin.send(f"/sessions/{session['session']}/delete", {}, "/users").status == 303
        assert olga.get("/account").status == 303
        [ended] = admin.read("/audit?filter=session.end")["audit"]["rows"]
        assert (ended["user"], ended["subject"], ended["outcome"]) == ("admin", session["session"], "done")
        assert json.loads(ended["before"]) == {"user": "olga", "address": "127.0.0.1"}
