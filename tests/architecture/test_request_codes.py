"""Every request code is either served or listed as not supported, and the reference page is up to date."""

import re
from collections import Counter
from pathlib import Path

import broker
from broker.manual import ACCESS_PAGE, PAGE, format_access_page, format_page
from broker.served_requests import NAME_SERVER, ROCKETMQ_5, SERVED, TO_CLIENTS, UNUSED
from headrace.protocol.request_access import ACCESS, ADMIN_CODES, Access
from headrace.protocol.request_code import RequestCode
from support.admin_world import AdminWorld

PACKAGE = Path(broker.__file__).parent


def codes_in(module: Path) -> set[RequestCode]:
    """The request codes that occur in a module's source."""
    return {
        RequestCode[name] for name in re.findall(r"\bRequestCode\.([A-Z0-9_]+)", module.read_text(encoding="utf-8"))
    }


def test_every_request_code_is_in_exactly_one_table() -> None:
    listed = Counter([*SERVED, *NAME_SERVER, *TO_CLIENTS, *UNUSED, *ROCKETMQ_5])
    assert set(listed) == set(RequestCode)
    assert [code.name for code, count in listed.items() if count > 1] == []


def test_served_request_is_handled_by_the_listed_module() -> None:
    for code, module in SERVED.items():
        path = PACKAGE.parent / f"{module.replace('.', '/')}.py"
        assert code in codes_in(path), f"{code.name} is not in {module}"


def test_every_handled_request_is_in_the_table() -> None:
    for folder in ("processors", "admin"):
        for path in sorted((PACKAGE / folder).glob("*.py")):
            unlisted = codes_in(path) - SERVED.keys() - TO_CLIENTS
            assert not unlisted, f"{path.name} handles {unlisted}: move them to SERVED in broker/served_requests.py"


def test_admin_processors_serve_the_listed_codes(tmp_path: Path) -> None:
    listed = {code for code, module in SERVED.items() if module.startswith("broker.admin.")}
    assert AdminWorld(tmp_path).handlers.codes() == listed


def test_unsupported_requests_are_refused_with_code_3(tmp_path: Path) -> None:
    world = AdminWorld(tmp_path)
    for code in ROCKETMQ_5:
        answer = world.ask(code)
        assert (answer.code, answer.remark) == (3, f" request type {int(code)} not supported")


def test_every_served_request_has_an_access_class() -> None:
    assert set(ACCESS) == SERVED.keys() | NAME_SERVER, "classify it in headrace/protocol/request_access.py"
    assert {code for code, access in ACCESS.items() if access is Access.ADMIN} == ADMIN_CODES


def test_requests_that_change_something_are_for_administrators() -> None:
    changing = re.compile(r"UPDATE|DELETE|PUT|CLEAN|RESET|CLONE|WIPE|ADD_WRITE|REGISTER|RESUME")
    clients = {RequestCode.UPDATE_CONSUMER_OFFSET, RequestCode.UNREGISTER_CLIENT}
    for code, access in ACCESS.items():
        assert access is Access.ADMIN or code in clients or not changing.search(code.name), code.name


def test_request_codes_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == format_page(), "stale: run `python -m broker.manual`"
    assert ACCESS_PAGE.read_text(encoding="utf-8") == format_access_page(), "stale: run `python -m broker.manual`"
