from collections.abc import Callable, Mapping

import pytest

from broker.access.access_rules import AccessRules
from broker.access.account import Account
from broker.access.address_pattern import parse_pattern
from broker.access.explanation import explain
from broker.access.needed_permissions import needed_permissions
from broker.access.permission import PUB_SUB, Permission, parse_permission
from headrace.model.subscription import SubscriptionData
from headrace.protocol.acl_signature import ACCESS_KEY, SIGNATURE, sign
from headrace.protocol.bodies import ConsumerData, HeartbeatData
from headrace.protocol.remoting_command import RemotingCommand, create_request

SECRET = "secret-key"
EXCEPTION = "org.apache.rocketmq.acl.common.AclException: "
PLACE = "org.apache.rocketmq.acl.plain.PlainPermissionManager"
SendHeader = Mapping[str, str]
HEARTBEAT = HeartbeatData(
    "client",
    consumer_data_set=[
        ConsumerData(
            "group", subscription_data_set=[SubscriptionData.build("topic"), SubscriptionData.build("%RETRY%group")]
        )
    ],
).encode()


def account(**fields: object) -> Account:
    return Account("account1", SECRET, **fields)  # type: ignore[arg-type]


def signed(code: int, ext: Mapping[str, str] | None = None, body: bytes = b"", secret: str = SECRET) -> RemotingCommand:
    fields = {**(ext or {}), ACCESS_KEY: "account1"}
    return create_request(code, {**fields, SIGNATURE: sign(secret, fields, body)}, body)


def check(one: Account, command: RemotingCommand, host: str = "10.0.0.9") -> str | None:
    return AccessRules({one.access_key: one}).check(host, command)


@pytest.mark.parametrize(
    ("code", "ext", "body", "needs"),
    [
        (10, {"topic": "t", "producerGroup": "g"}, b"", {"t": Permission.PUB}),
        (10, {"topic": "%RETRY%c", "producerGroup": "g"}, b"", {}),
        (310, {"a": "g", "b": "t"}, b"", {"t": Permission.PUB}),
        (310, {"a": "g", "b": "%RETRY%c"}, b"", {"%RETRY%g": Permission.SUB}),
        (310, {"a": "g"}, b"", {}),
        (36, {"group": "g", "originTopic": "t"}, b"", {"%RETRY%g": Permission.SUB}),
        (11, {"topic": "t", "consumerGroup": "g"}, b"", {"t": Permission.SUB, "%RETRY%g": Permission.SUB}),
        (11, {"topic": "%RETRY%g", "consumerGroup": "g"}, b"", {"%RETRY%g": Permission.SUB}),
        (12, {"topic": "t"}, b"", {"t": Permission.SUB}),
        (34, {}, HEARTBEAT, {"%RETRY%group": Permission.SUB, "topic": Permission.SUB}),
        (35, {"clientID": "c", "consumerGroup": "g"}, b"", {"%RETRY%g": Permission.SUB}),
        (35, {"clientID": "c", "producerGroup": "g"}, b"", {}),
        (38, {"consumerGroup": "g"}, b"", {"%RETRY%g": Permission.SUB}),
        (15, {"consumerGroup": "g", "topic": "t", "queueId": "0", "commitOffset": "1"}, b"", {"%RETRY%g": Permission.SUB, "t": Permission.SUB}),
        *((code, {"topic": "t", "b": "t", "a": "g", "group": "g"}, b"", {}) for code in (14, 37, 41, 50, 320, 324, 325, 9999)),
    ],
)  # fmt: skip
def test_request_needs_permissions(code: int, ext: dict[str, str], body: bytes, needs: dict[str, Permission]) -> None:
    assert needed_permissions(create_request(code, ext, body)) == needs


def test_needs_are_in_the_order_of_a_java_map() -> None:
    # The order decides which of several missing permissions is reported.
    groups = [ConsumerData(name) for name in ("zebra", "alpha", "middle")]
    found = list(needed_permissions(create_request(34, {}, HeartbeatData("client", [], groups).encode())))
    assert found == ["%RETRY%middle", "%RETRY%zebra", "%RETRY%alpha"]


@pytest.mark.parametrize(
    ("word", "permission"),
    [("PUB", Permission.PUB), (" SUB ", Permission.SUB), ("PUB|SUB", PUB_SUB), ("SUB|PUB", PUB_SUB), ("DENY", Permission.DENY),
     ("pub", Permission.DENY), ("PUB | SUB", Permission.DENY), ("ANY", Permission.DENY), (None, Permission.DENY)],
)  # fmt: skip
def test_word_is_a_permission_and_denies_if_unknown(word: str | None, permission: Permission) -> None:
    assert parse_permission(word) == permission


def test_request_without_access_key_is_refused() -> None:
    for ext in (None, {}, {"topic": "t"}):
        assert check(account(), create_request(17, ext)) == (
            f"{EXCEPTION}No accessKey is configured, {PLACE}.validate(PlainPermissionManager.java:663)"
        )


def test_request_of_unknown_account_is_refused() -> None:
    assert AccessRules().check("10.0.0.9", signed(17)) == (
        f"{EXCEPTION}No acl config for account1, {PLACE}.validate(PlainPermissionManager.java:667)"
    )


@pytest.mark.parametrize(
    "command",
    [
        signed(310, {"a": "g", "b": "t"}, b"body", "wrong-secret"),
        create_request(310, {"a": "g", "b": "t", ACCESS_KEY: "account1"}, b"body"),
        create_request(310, signed(310, {"a": "g", "b": "t"}, b"body").ext_fields, b"other"),
    ],
)
def test_request_with_wrong_signature_is_refused(command: RemotingCommand) -> None:
    assert check(account(is_admin=True), command) == (
        f"{EXCEPTION}Check signature failed for accessKey=account1, {PLACE}.validate(PlainPermissionManager.java:683)"
    )


def test_white_addresses_need_no_signature_and_no_permission() -> None:
    unsigned = create_request(310, {"a": "g", "b": "t", ACCESS_KEY: "account1"})
    white = account(white_addresses=parse_pattern("10.0.*.*"))
    assert check(white, unsigned, "10.0.3.4") is None
    assert check(white, unsigned, "10.1.3.4") is not None
    rules = AccessRules(white_addresses=(parse_pattern(None), parse_pattern("10.0.0.1")))
    assert rules.check("10.0.0.1", create_request(215, {"topic": "t"})) is None
    assert rules.check("10.0.0.2", create_request(215, {"topic": "t"})) is not None


@pytest.mark.parametrize("code", [17, 25, 200, 207, 215])
def test_admin_requests_are_for_admins(code: int) -> None:
    assert check(account(default_topic=PUB_SUB, default_group=PUB_SUB), signed(code)) == (
        f"{EXCEPTION}Need admin permission for request code={code}, but accessKey=account1 is not,"
        f" {PLACE}.checkPerm(PlainPermissionManager.java:580)"
    )
    assert check(account(is_admin=True, resources={"t": Permission.DENY}), signed(code)) is None


@pytest.mark.parametrize(
    ("one", "command", "refused"),
    [
        (account(), signed(310, {"a": "g", "b": "t"}), "topic:t, 605"),
        (account(default_topic=Permission.SUB), signed(310, {"a": "g", "b": "t"}), "topic:t, 605"),
        (account(default_topic=Permission.PUB), signed(310, {"a": "g", "b": "t"}), None),
        (account(default_topic=PUB_SUB, resources={"t": Permission.DENY}), signed(310, {"a": "g", "b": "t"}), "topic:t, 610"),
        (account(resources={"t": Permission.PUB}), signed(310, {"a": "g", "b": "t"}), None),
        (account(default_topic=Permission.SUB), signed(11, {"topic": "t", "consumerGroup": "g"}), "group:g, 605"),
        (account(default_group=Permission.SUB), signed(11, {"topic": "t", "consumerGroup": "g"}), "topic:t, 605"),
        (account(default_topic=Permission.SUB, resources={"%RETRY%g": PUB_SUB}), signed(11, {"topic": "t", "consumerGroup": "g"}), None),
        (account(default_group=Permission.SUB), signed(310, {"a": "g", "b": "%RETRY%c"}), None),
        (account(default_group=Permission.PUB), signed(310, {"a": "g", "b": "%RETRY%c"}), "group:g, 605"),
        (account(), signed(310, {"a": "g", "b": "RMQ_SYS_TRACE_TOPIC"}), None),
        (account(), signed(11, {"topic": "RMQ_SYS_TRACE_TOPIC", "consumerGroup": "g"}), "topic:RMQ_SYS_TRACE_TOPIC, 605"),
        (account(), signed(320, {"a": "g", "b": "t"}), None),
        (account(is_admin=True), signed(11, {"topic": "t", "consumerGroup": "g"}), None),
        (account(is_admin=True, resources={"x": PUB_SUB}), signed(310, {"a": "g", "b": "t"}), "topic:t, 605"),
    ],
)  # fmt: skip
def test_account_has_its_permissions_and_no_others(one: Account, command: RemotingCommand, refused: str | None) -> None:
    remark = check(one, command)
    if refused is None:
        assert remark is None
    else:
        what, line = refused.split(", ")
        assert remark == (
            f"{EXCEPTION}No default permission for {what}, {PLACE}.checkPerm(PlainPermissionManager.java:{line})"
        )


@pytest.mark.parametrize("command", [signed(34, {}, b"no heartbeat"), signed(38), signed(15, {"consumerGroup": "g"})])
def test_request_that_cannot_be_read_is_refused(command: RemotingCommand) -> None:
    remark = check(account(is_admin=True), command)
    assert remark is not None
    assert remark.startswith(EXCEPTION)


def test_explanation_agrees_with_the_rules_and_names_the_deciding_one() -> None:
    everyone = [
        account(is_admin=is_admin, default_topic=topic, default_group=group, resources=resources)
        for is_admin in (False, True)
        for topic in (Permission.DENY, Permission.PUB)
        for group in (Permission.DENY, Permission.SUB)
        for resources in ({}, {"t": Permission.SUB}, {"%RETRY%g": PUB_SUB, "t": Permission.DENY})
    ]
    requests: list[tuple[str, Permission, Callable[[str], RemotingCommand]]] = [
        ("t", Permission.PUB, lambda topic: signed(310, {"a": "p", "b": topic})),
        ("t", Permission.SUB, lambda topic: signed(12, {"topic": topic})),
        ("RMQ_SYS_TRACE_TOPIC", Permission.PUB, lambda topic: signed(310, {"a": "p", "b": topic})),
        ("%RETRY%g", Permission.SUB, lambda _: signed(38, {"consumerGroup": "g"})),
    ]
    for one in everyone:
        rules = AccessRules({"account1": one})
        for resource, needed, make in requests:
            said = explain(rules, "account1", resource, needed)
            assert said.is_allowed is (rules.check("10.0.0.9", make(resource)) is None), (one, resource, said)
        assert explain(rules, "account1", "", None).is_allowed is one.is_admin
    first = AccessRules({"account1": account(default_group=Permission.SUB, resources={"t": PUB_SUB})})
    assert explain(first, "account1", "t", Permission.PUB).rule == "topicPerms: t=PUB|SUB"
    assert explain(first, "account1", "other", Permission.PUB).rule == "defaultTopicPerm: DENY"
    assert explain(first, "account1", "%RETRY%g", Permission.SUB).rule == "defaultGroupPerm: SUB"
    assert not explain(first, "account2", "t", Permission.PUB).is_allowed


def test_texts_of_rules_do_not_contain_secrets() -> None:
    rules = AccessRules({"account1": account()})
    assert SECRET not in repr(rules)
    assert SECRET not in str(rules.check("10.0.0.9", signed(310, {"a": "g", "b": "t"})))
