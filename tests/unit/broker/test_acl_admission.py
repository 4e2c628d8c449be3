"""With ACL every request is checked; signed sends and pulls are checked on the hot paths, with the same outcome as on the plain one."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.access.access_rules import AccessRules
from broker.access.account import Account
from broker.access.address_pattern import parse_pattern
from broker.access.permission import PUB_SUB, Permission
from broker.connections.acl_admission import AclAdmission
from broker.connections.hot_access import HotAccess
from broker.sending.hot_send import COMPILED
from headrace.model.address_list import parse_networks
from headrace.protocol.acl_signature import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE, sign
from headrace.protocol.batch import encode_entry
from headrace.protocol.remoting_command import RemotingCommand, SerializeType
from headrace.protocol.request_access import ADMIN_CODES
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from headrace.remoting import OPEN
from headrace.remoting.admin_gate import AdminGate
from support.small_broker import Peer, SmallBroker, pull_fields, send_fields

PROPERTIES = 'TAGS\x01a\x02KEYS\x01"quoted\\ \u00e9\u4e2d"\x02WAIT\x01true'
BOTH = Account("both-key", "both-secret", default_topic=PUB_SUB, default_group=PUB_SUB)
SENDER = Account("sender-key", "sender-secret", default_topic=Permission.PUB)
LONG = Account("long-key", "s" * 100, default_topic=PUB_SUB, default_group=PUB_SUB)
ADMIN = Account("admin-key", "admin-secret", is_admin=True)
HOME = Account("home-key", "home-secret", white_addresses=parse_pattern("10.1.2.3"))
ACCOUNTS = (BOTH, SENDER, LONG, ADMIN, HOME)


class Control:
    """Rules without files."""

    def __init__(self, *accounts: Account) -> None:
        self.rules = AccessRules({account.access_key: account for account in accounts})
        self._listeners: list[Callable[[AccessRules], None]] = []

    def on_change(self, listener: Callable[[AccessRules], None]) -> None:
        self._listeners.append(listener)

    def replace(self, rules: AccessRules) -> None:
        self.rules = rules
        for listener in self._listeners:
            listener(rules)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SmallBroker]:
    made = SmallBroker(tmp_path)
    made.topic()
    yield made
    made.close()


@pytest.fixture
def control() -> Control:
    return Control(*ACCOUNTS)


@pytest.fixture
def admission(control: Control) -> AclAdmission:
    gate = AdminGate("broker", ADMIN_CODES, parse_networks("adminAllow", ""), is_disabled=False)
    return AclAdmission(control, gate)  # type: ignore[arg-type]


@pytest.fixture(params=["hot", "plain"])
def client(broker: SmallBroker, admission: AclAdmission, request: pytest.FixtureRequest) -> Peer:
    made = broker.connect_hot() if request.param == "hot" else broker.connect()
    made.connection.admission = admission.admit(made.connection)
    return made


def signed(ext: dict[str, Any], account: Account | None, body: bytes = b"", **changed: str) -> dict[str, str]:
    """The fields signed by the account; `changed` replaces fields after that."""
    fields = {key: str(value) for key, value in ext.items()}
    if account is not None:
        fields[ACCESS_KEY] = account.access_key
        fields[SIGNATURE] = sign(account.secret_key, fields, body)
    return fields | changed


def send(client: Peer, account: Account | None, body: bytes = b"hello", **changed: str) -> RemotingCommand:
    fields = signed(send_fields(i=PROPERTIES), account, body, **changed)
    return client.ask(RequestCode.SEND_MESSAGE_V2, fields, body)


def pull(client: Peer, account: Account | None, **changed: str) -> RemotingCommand:
    return client.ask(RequestCode.PULL_MESSAGE, signed(pull_fields(), account, **changed))


def is_hot(client: Peer) -> bool:
    return COMPILED and client.connection.hot_path is not None


# ---- signatures


@pytest.mark.parametrize("account", [BOTH, SENDER, LONG, ADMIN])
@pytest.mark.parametrize("body", [b"", b"hello", bytes(range(256)) * 8])
def test_signed_sends_take_the_hot_path(broker: SmallBroker, client: Peer, account: Account, body: bytes) -> None:
    assert send(client, account, body).code == ResponseCode.SUCCESS
    assert broker.path.requests_in == (1 if is_hot(client) else 0)
    assert [record.body for record in broker.records()] == [body]
    assert client.connection.admission.account in (None, account.access_key)


def test_signed_batches_take_the_hot_path(broker: SmallBroker, client: Peer) -> None:
    body = encode_entry(b"one", 0, b"") + encode_entry(b"two", 0, b"TAGS\x01a")
    fields = signed(send_fields(m="true"), BOTH, body)
    assert client.ask(RequestCode.SEND_BATCH_MESSAGE, fields, body).code == ResponseCode.SUCCESS
    assert [record.body for record in broker.records()] == [b"one", b"two"]
    assert broker.path.requests_in == (1 if is_hot(client) else 0)


def test_all_signed_frames_of_one_read_take_the_hot_path(broker: SmallBroker, client: Peer, control: Control) -> None:
    frames = [
        RemotingCommand(RequestCode.SEND_MESSAGE_V2, opaque=number, ext_fields=fields, body=b"%d" % number).encode()
        for number in range(32)
        for fields in [signed(send_fields(i=PROPERTIES, e=str(number % 4)), (BOTH, LONG)[number % 2], b"%d" % number)]
    ]
    client.handle(b"".join(frames))
    assert [answer.code for answer in client.received()] == [ResponseCode.SUCCESS] * 32
    assert [record.body for record in broker.records()] == [b"%d" % number for number in range(32)]
    assert broker.path.requests_in == (32 if is_hot(client) else 0)
    # The same frames once more, one of them forged: that one alone is refused, and the others are still taken in bulk.
    frames[7] = frames[7][:-1] + b"x"
    client.handle(b"".join(frames))
    refused = {answer.opaque: answer.remark or "" for answer in client.received() if answer.code}
    assert list(refused) == [7]
    assert "Check signature failed for accessKey=long-key" in refused[7]
    assert len(broker.records()) == 63
    assert broker.path.requests_in == (63 if is_hot(client) else 0)
    # And after the rules have changed between two reads: nothing that was remembered of the account counts.
    control.replace(AccessRules({LONG.access_key: LONG}))
    client.handle(b"".join(frames[8:12]))
    assert sorted(answer.opaque for answer in client.received() if answer.code) == [8, 10]
    assert len(broker.records()) == 65


@pytest.mark.parametrize(("name", "is_known"), [("bname", True), ("maxMsgBytes", True), ("unheardOf", False)])
def test_signed_pulls_with_further_fields_are_checked(
    broker: SmallBroker, client: Peer, name: str, is_known: bool
) -> None:
    send(client, BOTH)
    broker.dispatch()
    pull(client, BOTH)  # prepares the hot path
    fields = signed(pull_fields() | {name: "1"}, BOTH)
    assert client.ask(RequestCode.PULL_MESSAGE, fields).code == ResponseCode.SUCCESS
    assert broker.pull_path.pulls_answered == (1 if is_hot(client) and is_known else 0)
    for changed in (name, "suspendTimeoutMillis"):
        answer = client.ask(RequestCode.PULL_MESSAGE, fields | {changed: "2"})
        assert "Check signature failed" in (answer.remark or "")


def test_security_token_is_signed_too(broker: SmallBroker, client: Peer) -> None:
    fields = signed(send_fields() | {SECURITY_TOKEN: "token"}, BOTH, b"x")
    assert client.ask(RequestCode.SEND_MESSAGE_V2, fields, b"x").code == ResponseCode.SUCCESS
    assert broker.path.requests_in == (1 if is_hot(client) else 0)
    answer = client.ask(RequestCode.SEND_MESSAGE_V2, fields | {SECURITY_TOKEN: "other"}, b"x")
    assert "Check signature failed" in (answer.remark or "")


def test_signed_pulls_take_the_hot_path(broker: SmallBroker, client: Peer) -> None:
    send(client, BOTH)
    broker.dispatch()
    assert [pull(client, BOTH).code for _ in range(3)] == [ResponseCode.SUCCESS] * 3
    assert broker.pull_path.pulls_answered == (2 if is_hot(client) else 0)


@pytest.mark.parametrize(
    ("account", "changed", "remark"),
    [
        (None, {}, "No accessKey is configured"),
        (None, {ACCESS_KEY: BOTH.access_key}, "Check signature failed for accessKey=both-key"),
        (BOTH, {ACCESS_KEY: "nobody"}, "No acl config for nobody"),
        (BOTH, {ACCESS_KEY: SENDER.access_key}, "Check signature failed for accessKey=sender-key"),
        (BOTH, {SIGNATURE: ""}, "Check signature failed"),
        (BOTH, {SIGNATURE: "AAAA"}, "Check signature failed"),
        (BOTH, {"g": "1700000000124"}, "Check signature failed"),
        (BOTH, {"i": PROPERTIES + "x"}, "Check signature failed"),
        (BOTH, {"n": "more"}, "Check signature failed"),
        (Account(BOTH.access_key, "another secret"), {}, "Check signature failed"),
    ],
)
def test_unsigned_and_changed_sends_are_refused(
    broker: SmallBroker, client: Peer, account: Account | None, changed: dict[str, str], remark: str
) -> None:
    assert send(client, BOTH).code == ResponseCode.SUCCESS  # the account's permission is remembered
    answer = send(client, account, b"hello", **changed)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert remark in (answer.remark or "")
    assert answer.serialize_type == SerializeType.JSON
    assert len(broker.records()) == 1


def test_send_with_a_changed_body_is_refused(broker: SmallBroker, client: Peer) -> None:
    fields = signed(send_fields(), BOTH, b"hello")
    answer = client.ask(RequestCode.SEND_MESSAGE_V2, fields, b"hullo")
    assert "Check signature failed" in (answer.remark or "")
    assert broker.records() == []


@pytest.mark.parametrize("changed", [{"queueOffset": "0 "}, {"consumerGroup": "other"}, {SIGNATURE: "x"}, {"new": "1"}])
def test_changed_pulls_are_refused(broker: SmallBroker, client: Peer, changed: dict[str, str]) -> None:
    send(client, BOTH)
    broker.dispatch()
    assert pull(client, BOTH).code == ResponseCode.SUCCESS
    answer = pull(client, BOTH, **changed)
    assert "Check signature failed" in (answer.remark or "")


# ---- permissions


def test_account_without_permission_is_refused_on_every_path(broker: SmallBroker, client: Peer) -> None:
    send(client, BOTH)
    broker.dispatch()
    pull(client, BOTH)  # prepares the hot path
    assert "No default permission for" in (pull(client, SENDER).remark or "")
    nothing = Account("nothing-key", "nothing-secret")
    assert "No acl config for nothing-key" in (send(client, nothing).remark or "")


def test_rules_that_change_count_from_the_next_request_on(broker: SmallBroker, client: Peer, control: Control) -> None:
    assert send(client, BOTH).code == ResponseCode.SUCCESS
    denied = Account(BOTH.access_key, BOTH.secret_key, default_topic=Permission.SUB)
    control.replace(AccessRules({denied.access_key: denied}))
    assert "No default permission for topic:T" in (send(client, BOTH).remark or "")
    other = Account(BOTH.access_key, "changed-secret", default_topic=PUB_SUB)
    control.replace(AccessRules({other.access_key: other}))
    assert "Check signature failed" in (send(client, BOTH).remark or "")
    assert send(client, other).code == ResponseCode.SUCCESS
    control.replace(AccessRules())
    assert "No acl config for both-key" in (send(client, other).remark or "")
    assert len(broker.records()) == 2


def test_account_is_known_to_the_admission_after_its_first_request(client: Peer) -> None:
    client.ask(RequestCode.GET_BROKER_CONFIG, signed({}, BOTH))
    assert client.connection.admission.account == BOTH.access_key
    client.ask(RequestCode.GET_BROKER_CONFIG, signed({}, SENDER))
    assert client.connection.admission.account == SENDER.access_key


# ---- white addresses


def test_global_white_address_needs_no_account_as_long_as_it_is_in_the_rules(
    broker: SmallBroker, admission: AclAdmission, control: Control
) -> None:
    client = broker.connect_hot()
    white = AccessRules(control.rules.accounts, (parse_pattern("10.1.2.*"),))
    control.replace(white)
    client.connection.admission = admission.admit(client.connection)
    assert client.connection.admission is OPEN
    assert send(client, None).code == ResponseCode.SUCCESS
    control.replace(AccessRules(control.rules.accounts))
    assert "No accessKey" in (send(client, None).remark or "")
    control.replace(white)
    assert send(client, None).code == ResponseCode.SUCCESS
    assert client.connection.admission is OPEN


def test_white_address_of_an_account_needs_no_signature(client: Peer) -> None:
    assert send(client, HOME, b"x", **{SIGNATURE: "none"}).code == ResponseCode.SUCCESS


# ---- administration


@pytest.mark.parametrize(
    ("account", "is_refused"), [(None, True), (BOTH, True), (HOME, True), (ADMIN, False)]
)  # fmt: skip
def test_only_admin_accounts_administer_the_broker_from_another_host(
    client: Peer, account: Account | None, is_refused: bool
) -> None:
    for code in sorted(ADMIN_CODES):
        answer = client.ask(code, signed({}, account))
        refused = answer.code == ResponseCode.NO_PERMISSION or "AclException" in (answer.remark or "")
        assert refused == is_refused, (code, answer.remark)


@pytest.mark.parametrize("account", [BOTH, HOME, ADMIN])
@pytest.mark.parametrize("code", [50, 51, 53])
def test_only_admin_accounts_change_accounts_even_from_where_administration_is_allowed(
    broker: SmallBroker, control: Control, account: Account, code: int
) -> None:
    gate = AdminGate("broker", ADMIN_CODES, parse_networks("adminAllow", "0.0.0.0/0"), is_disabled=False)
    client = broker.connect()
    client.connection.admission = AclAdmission(control, gate).admit(client.connection)  # type: ignore[arg-type]
    answer = client.ask(code, signed({}, account))
    assert (answer.code == ResponseCode.NO_PERMISSION) == (account is not ADMIN), answer.remark


# ---- what hot paths ask


def test_permissions_are_looked_up_once_for_each_version_of_the_rules() -> None:
    access = HotAccess(AccessRules({BOTH.access_key: BOTH, SENDER.access_key: SENDER}))
    key = access.key_of_sender(b"both-key", "T")
    assert key is not None
    assert access.key_of_sender(b"both-key", "T") is key
    assert access.key_of_consumer(b"both-key", "G", "T") is not None
    assert access.key_of_consumer(b"sender-key", "G", "T") is None
    assert access.key_of_sender(b"both-key", "%RETRY%G") is None
    assert access.key_of_sender(b"\xff", "T") is None
    access.replace_rules(AccessRules())
    assert access.key_of_sender(b"both-key", "T") is None
    assert access.key_of_consumer(b"both-key", "G", "T") is None
