"""Every request code is tried from another address, with and without accounts; the page of the reference shows what happens."""

import re
from pathlib import Path
from typing import Any, Final

import pytest

from broker.manual import ACCESS_PAGE, PEERS
from broker.served_requests import NAME_SERVER, SERVED
from headrace.protocol.request_access import ADMIN_CODES
from headrace.protocol.request_code import RequestCode
from support.remote_peer import SERVER, SOURCE, try_all_requests

pytestmark = pytest.mark.slow

_ACCOUNTS: Final = """\
accounts:
- accessKey: plain-account
  secretKey: plain-secret
  defaultTopicPerm: PUB|SUB
  defaultGroupPerm: SUB
- accessKey: admin-account
  secretKey: admin-secret
  admin: true
"""


def of_page(column: int) -> dict[str, str]:
    """The outcome of each request by the page; the name server's table has one column for all peers."""
    found = {}
    for line in ACCESS_PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip().strip("`") for cell in line.split("|")[1:-1]]
        if cells and re.fullmatch("[0-9]+", cells[0]):
            found[cells[1]] = cells[min(2 + column, len(cells) - 1)]
    return found


def test_requests_from_another_host_are_allowed_and_refused_as_the_page_says(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "conf").mkdir(parents=True)
    (home / "conf" / "plain_acl.yml").write_text(_ACCOUNTS)
    acl = {"aclEnable": "true", "rocketmqHome": str(home)}
    rounds: list[dict[str, Any]] = [
        {},
        {"settings": acl},
        {"settings": acl, "account": ["plain-account", "plain-secret"]},
        {"settings": acl, "account": ["admin-account", "admin-secret"]},
    ]
    results = try_all_requests(tmp_path, rounds)
    assert len(results) == len(PEERS)
    for column, (peer, found) in enumerate(zip(PEERS, results, strict=True)):
        expected = of_page(column)
        assert found.keys() == expected.keys() == {code.name for code in (*SERVED, *NAME_SERVER)}
        assert {name: found[name] for name in found if found[name] != expected[name]} == {}, peer


def test_peers_that_are_allowed_to_administer_are_not_refused(tmp_path: Path) -> None:
    rounds: list[dict[str, Any]] = [
        {"source": SERVER},
        {"settings": {"adminAllow": f"203.0.113.0/24,{SOURCE}"}},
        {"settings": {"allowUnauthenticatedAdmin": "true"}},
        {"settings": {"adminAllow": "203.0.113.0/24"}},
    ]
    *allowed, refused = try_all_requests(tmp_path, rounds)
    for found in allowed:
        assert set(found.values()) == {"allowed"}
    assert {name for name, outcome in refused.items() if outcome == "refused"} == {
        RequestCode(code).name for code in ADMIN_CODES
    }
    logs = [(tmp_path / f"{number}.log").read_text() for number in range(len(rounds))]
    assert ["unauthenticated administration allowed" in log for log in logs] == [False, False, True, False]
