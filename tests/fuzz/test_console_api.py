"""Generated requests, valid and invalid, for every operation of the console's API: its answers are those that its document describes.

The requests are the same in every run. `make test-fuzz` sends thirty times as many (HEADRACE_FUZZ_INPUTS).
"""

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from headrace import Admin, Message, Reject
from headrace.client.consuming.received_message import ReceivedMessage
from headrace.client.settings import Credentials
from support.appliance import Appliance
from support.console import PASSWORD, RunningConsole
from support.consuming import create_topic, eventually, push
from support.sdk import dump, patient, producing, run
from web.serving import dispatcher

pytestmark = pytest.mark.slow
IS_LONG = int(os.environ.get("HEADRACE_FUZZ_INPUTS", "0")) > 200_000
SEED = int(os.environ.get("HEADRACE_FUZZ_SEED", "1"))
EXAMPLES = 100 if IS_LONG else 3
"""Of each operation, valid ones and invalid ones."""
SETTINGS = {"mappedFileSizeCommitLog": "16777216", "aclEnable": "true"}
ACCOUNT = Credentials("operators1", "secret-of-operators")
ACL = f"""globalWhiteRemoteAddresses:
- 127.0.0.1
accounts:
- accessKey: {ACCOUNT.access_key}
  secretKey: {ACCOUNT.secret_key}
  admin: true
- accessKey: billing1
  secretKey: secret-of-billing
  topicPerms:
  - Orders=SUB
"""
CHECKS: list[Callable[..., Any]] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
REFUSED_BY_SERVERS = {"/cluster/brokers/{address}", "/cluster/name-servers/{address}"}
"""Changes of options: the server decides which keys and values are valid, and its refusal is 502. They get addresses that no server has."""


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    data = tmp_path_factory.mktemp("api") / "data"
    (data / "conf").mkdir(parents=True)
    (data / "conf" / "plain_acl.yml").write_text(ACL)
    with Appliance(data, settings=SETTINGS) as appliance:
        run(give_up_one(appliance))
        yield appliance


async def give_up_one(appliance: Appliance) -> None:
    """A topic with messages, a group that consumed them, and a dead letter of it."""
    seen: list[bytes] = []

    def handler(message: ReceivedMessage) -> None:
        seen.append(message.body)
        if message.body == b"0":
            raise Reject("of no use")

    await create_topic(appliance, "Orders", 2)
    async with push(appliance, "billing", "Orders", handler), producing(appliance, "shop") as producer:
        for number in range(10):
            await producer.send(Message("Orders", str(number), "tag", f"order-{number}"))
        await eventually(lambda: len(seen) == 10, "all are consumed")
    async with Admin(patient(appliance)) as admin:
        await dump(admin, "%DLQ%billing", 1)  # brokers create and register the topic a little later


@pytest.fixture(scope="module")
def console(appliance: Appliance, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningConsole]:
    folder = tmp_path_factory.mktemp("console")
    with (
        pytest.MonkeyPatch.context() as patch,
        RunningConsole(folder, appliance.name_server, api_timeout=30, credentials=ACCOUNT) as console,
    ):
        patch.setattr(dispatcher, "DEADLINE_S", 60.0)  # the machine may be busy
        patch.setattr(dispatcher, "CHANGE_DEADLINE_S", 60.0)
        console.administrator()
        yield console


def token(console: RunningConsole, role: str) -> str:
    """A token of the administrator with a role."""
    admin = console.browser()
    assert admin.log_in("admin", PASSWORD).status == 303
    assert admin.send("/tokens", {"name": role, "role": role, "days": "1"}, "/tokens").status == 303
    found = re.search(r"headrace_[\w-]{43}", admin.get("/tokens").text)
    assert found is not None
    return found[0]


@pytest.fixture(scope="module")
def tokens(console: RunningConsole) -> dict[str, str]:
    """A token of each role. Made first: the requests change passwords, too, and after many wrong ones a user cannot log in for a while."""
    return {role: token(console, role) for role in ("admin", "viewer")}


@pytest.fixture(scope="module")
def operations(console: RunningConsole, tokens: dict[str, str]) -> list[APIOperation[Any, Any, Any, Any]]:
    """The operations of the document that the console serves."""
    admin = console.browser()
    assert admin.log_in("admin", PASSWORD).status == 303
    document = admin.get("/api/v1/openapi.json").json()
    return [found.ok() for found in schemathesis.openapi.from_dict(document).get_all_operations()]


def check(
    operation: APIOperation[Any, Any, Any, Any],
    mode: GenerationMode,
    examples: int,
    names: dict[str, list[str]],
    console: RunningConsole,
    secret: str,
) -> Counter[int]:
    """Sends generated requests to one operation and checks the answers; how many had which status. Half of them name what exists."""
    url, headers = f"http://127.0.0.1:{console.port}/api/v1", {"Authorization": f"Bearer {secret}"}
    checks = [*CHECKS, negative_data_rejection] if operation.method == "post" else CHECKS
    statuses: Counter[int] = Counter()

    @seed(SEED)
    @settings(max_examples=examples, database=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
    @given(st.data())
    def send(data: st.DataObject) -> None:
        case: Case = data.draw(operation.as_strategy(generation_mode=mode))
        for name in case.path_parameters or {}:
            if name in names and data.draw(st.booleans()):
                case.path_parameters[name] = data.draw(st.sampled_from(names[name]))
        answer = case.call(url, headers=headers, timeout=90)
        case.validate_response(answer, checks)
        statuses[answer.status_code] += 1

    send()
    return statuses


def names_of(appliance: Appliance) -> dict[str, list[str]]:
    """What exists, by the name of the path's part."""
    return {
        "topic": ["Orders", "%DLQ%billing"],
        "group": ["billing"],
        "account": ["billing1"],
        "address": [appliance.broker, appliance.name_server],
        "user": ["admin"],
    }


def test_administrator_gets_answers_of_the_document_to_valid_and_invalid_requests(
    appliance: Appliance,
    console: RunningConsole,
    tokens: dict[str, str],
    operations: list[APIOperation[Any, Any, Any, Any]],
) -> None:
    secret, names, statuses = tokens["admin"], names_of(appliance), Counter[int]()
    for operation in operations:
        known = {} if operation.method == "post" and operation.path in REFUSED_BY_SERVERS else names
        for mode in GenerationMode:
            statuses += check(operation, mode, EXAMPLES, known, console, secret)
    assert {200, 400, 404} <= statuses.keys(), statuses


def test_viewer_gets_answers_of_the_document_and_is_refused_changes(
    appliance: Appliance,
    console: RunningConsole,
    tokens: dict[str, str],
    operations: list[APIOperation[Any, Any, Any, Any]],
) -> None:
    secret, names, statuses = tokens["viewer"], names_of(appliance), Counter[int]()
    of_own_account = {"/account/password", "/account/zone", "/tokens", "/tokens/{token}/delete"}
    for operation in operations:
        answers = check(operation, GenerationMode.POSITIVE, EXAMPLES - 1, names, console, secret)
        if operation.method == "post" and operation.path not in of_own_account:
            assert set(answers) == {403}, (operation.label, answers)
        statuses += answers
    assert {200, 403, 404} <= statuses.keys(), statuses
