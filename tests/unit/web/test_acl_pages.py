"""Pages of access control over an Admin that answers from tables: brokers that agree, differ, refuse and have no ACL."""

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from headrace import BrokerError
from headrace.client.settings import ClientConfig
from headrace.protocol.bodies.acl import AclConfig, PlainAccessConfig
from headrace.protocol.headers.acl import GetBrokerAclConfigResponseHeader
from headrace.protocol.response_code import ResponseCode
from web.cluster.cluster import Cluster
from web.errors import Invalid, NotFound
from web.pages.acl.access_check import AccessCheck
from web.pages.acl.account_page import AccountForm, AccountPage, DeletionForm
from web.pages.acl.acl_list import AclList
from web.pages.acl.acl_reads import AclReads
from web.pages.acl.decisions import Decisions, words_of_rule
from web.routes import Access, View, Visit
from web.translations import catalogue

BILLING = PlainAccessConfig("billing1", "secret-of-billing", None, False, "SUB", "DENY", ["Orders=DENY"], [])


class Answers:
    """Stands for the Admin: the masters a and b."""

    def __init__(self) -> None:
        self.accounts: dict[str, list[PlainAccessConfig] | Exception] = {"b:1": [BILLING], "b:2": [BILLING]}
        self.is_enabled = {"b:1": "true", "b:2": "true"}
        self.asked: list[str] = []
        self.put: list[tuple[str, str | None]] = []
        self.deleted: list[str] = []

    async def masters(self) -> dict[str, str]:
        return {"a": "b:1", "b": "b:2"}

    async def broker_config(self, address: str) -> dict[str, str]:
        return {"aclEnable": self.is_enabled[address]}

    async def acl_config(self, address: str) -> AclConfig:
        self.asked.append(address)
        answer = self.accounts[address]
        if isinstance(answer, Exception):
            raise answer
        return AclConfig(["10.0.0.*"], list(answer))

    async def acl_version(self, address: str) -> GetBrokerAclConfigResponseHeader:
        self.asked.append(address)
        files = '{"/conf/plain_acl.yml":{"counter":3,"timestamp":5}}'
        return GetBrokerAclConfigResponseHeader('{"counter":3,"timestamp":5}', "a", address, "C", files)

    async def update_account(self, _key: str, secret_key: str | None, *, broker: str, **_fields: Any) -> None:
        self.put.append((broker, secret_key))

    async def delete_account(self, _key: str, *, broker: str) -> None:
        self.deleted.append(broker)


def reads(answers: Answers) -> AclReads:
    cluster = Cluster(ClientConfig("127.0.0.1:1"))
    stand_in: Any = answers
    cluster.admin = stand_in
    return AclReads(cluster)


def listed(answers: Answers) -> View:
    return asyncio.run(AclList(reads(answers)).show(Visit("", Access.VIEWER, "")))


def put(answers: Answers, form: AccountForm) -> Any:
    return asyncio.run(AccountPage(reads(answers)).put(Visit("a", Access.ADMIN, ""), form))


def test_same_accounts_of_brokers_are_one_row_and_others_differ() -> None:
    answers = Answers()
    [row] = listed(answers).tables[0].rows
    assert (row.brokers, row.differs) == (["a", "b"], False)
    answers.accounts["b:2"] = [replace(BILLING, secret_key="another-secret")]
    first, second = listed(answers).tables[0].rows
    assert (first.brokers, second.brokers, first.differs) == (["a"], ["b"], True)
    answers.accounts["b:2"] = []
    [row] = listed(answers).tables[0].rows
    assert row.differs


def test_broker_that_refuses_is_a_problem_and_not_an_empty_list() -> None:
    answers = Answers()
    answers.accounts["b:2"] = BrokerError.of(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "not supported")
    view = listed(answers)
    assert "not supported" in view.problems[0]
    assert "Brokers of RocketMQ 4.9.8 do not report their accounts" in view.problems[1]
    first, second = view.tables[1].rows
    assert (first.state, second.state, second.version) == ("enabled", "not readable", 3)
    # Nobody knows whether it has the account, nor with which secret key.
    visit = Visit("a", Access.ADMIN, "", {"account": "unknown1"})
    asyncio.run(AccountPage(reads(answers)).show(visit))
    with pytest.raises(Invalid, match="the secret key is unknown"):
        put(answers, AccountForm(access_key="unknown1"))
    put(answers, AccountForm(access_key="unknown1", secret_key="typed-secret"))
    assert answers.put == [("b:1", "typed-secret"), ("b:2", "typed-secret")]


def test_broker_without_acl_is_not_asked_for_accounts() -> None:
    answers = Answers()
    answers.is_enabled["b:2"] = "false"
    view = listed(answers)
    assert [row.state for row in view.tables[1].rows] == ["enabled", "disabled"]
    assert view.problems == []
    assert "b:2" not in answers.asked


def test_changed_account_keeps_each_broker_s_secret_key() -> None:
    answers = Answers()
    answers.accounts["b:2"] = [replace(BILLING, secret_key="another-secret")]
    outcome = put(answers, AccountForm(access_key="billing1", default_topic="PUB"))
    assert answers.put == [("b:1", "secret-of-billing"), ("b:2", "another-secret")]
    assert "secret-of" not in str((outcome.values, outcome.before, outcome.after))
    answers.accounts["b:2"], answers.put = [], []
    put(answers, AccountForm(access_key="billing1", default_topic="PUB"))
    assert answers.put == [("b:1", "secret-of-billing"), ("b:2", "secret-of-billing")]


def test_secret_key_that_brokers_refuse_is_not_sent() -> None:
    answers = Answers()
    with pytest.raises(Invalid, match="fewer than 7 characters"):
        put(answers, AccountForm(access_key="billing1", secret_key="123456"))
    assert answers.put == []
    put(answers, AccountForm(access_key="billing1", secret_key="1234567"))
    assert answers.put == [("b:1", "1234567"), ("b:2", "1234567")]


def test_new_secret_key_is_in_the_notice_only() -> None:
    answers = Answers()
    outcome = put(answers, AccountForm(access_key="created1"))
    [(_, secret), (_, same)] = answers.put
    assert secret is not None
    assert len(secret) == 32
    assert secret == same == outcome.values["secret"]
    assert secret not in str((outcome.before, outcome.after))


def test_account_is_deleted_where_it_is() -> None:
    answers = Answers()
    answers.accounts["b:2"] = []
    page = AccountPage(reads(answers))
    visit = Visit("a", Access.ADMIN, "", {"account": "billing1"})
    with pytest.raises(Invalid):
        asyncio.run(page.delete(visit, DeletionForm("billing2")))
    asyncio.run(page.delete(visit, DeletionForm("billing1")))
    assert answers.deleted == ["b:1"]
    with pytest.raises(NotFound):
        asyncio.run(page.show(Visit("a", Access.ADMIN, "", {"account": "nobody12"})))


@pytest.mark.parametrize("wrong", ["Orders", "Orders=READ", "a=PUB,b=SUB", "=PUB", "a=b=PUB"])
def test_entries_that_brokers_refuse_are_never_sent(wrong: str) -> None:
    answers = Answers()
    with pytest.raises(Invalid):
        put(answers, AccountForm(access_key="created1", topics=wrong))
    assert answers.put == []


def test_decision_names_the_rule() -> None:
    rules = Decisions([BILLING], ["10.0.0.*"])
    assert rules.decide("billing1", "sub", "Orders").rule == "topicPerms: Orders=DENY"
    assert rules.decide("billing1", "sub", "Other").is_allowed
    assert not rules.decide("billing1", "sub", "group:g").is_allowed
    assert rules.decide("nobody12", "pub", "Orders", "10.0.0.9").is_allowed
    assert not rules.decide("billing1", "admin", "").is_allowed
    with pytest.raises(Invalid):
        rules.decide("billing1", "read", "Orders")


@pytest.mark.parametrize(
    ("access_key", "action", "resource", "host", "shown"),
    [
        ("billing1", "sub", "Orders", "", "Topics: Orders=DENY"),
        ("billing1", "sub", "Other", "", "Default for topics: SUB"),
        ("billing1", "sub", "group:g", "", "Default for groups: DENY"),
        ("billing1", "sub", "group:own", "", "Groups: own=SUB"),
        ("billing1", "pub", "RMQ_SYS_TRACE_TOPIC", "", "Every account may send to RMQ_SYS_TRACE_TOPIC"),
        ("billing1", "admin", "", "", "Admin: no"),
        ("manager1", "admin", "", "", "Admin: yes"),
        ("manager1", "pub", "Orders", "", "Admin: yes, without rules for topics and groups"),
        ("nobody12", "pub", "Orders", "", "There is no account nobody12"),
        ("nobody12", "pub", "Orders", "10.0.0.9", "The global whitelisted addresses contain 10.0.0.9"),
        ("manager1", "pub", "Orders", "10.1.0.9", "The whitelisted address contains 10.1.0.9"),
    ],
)
def test_rule_is_shown_in_the_words_of_the_forms(
    access_key: str, action: str, resource: str, host: str, shown: str
) -> None:
    accounts = [replace(BILLING, group_perms=["own=SUB"]), PlainAccessConfig("manager1", "s", "10.1.0.9", True)]
    rule = Decisions(accounts, ["10.0.0.*"]).decide(access_key, action, resource, host).rule
    words = words_of_rule(rule)
    assert words is not None
    assert words[0] in catalogue("zh")
    assert words[0].format(**words[1]) == shown


def test_list_shows_what_an_administrator_may_do_and_not_the_default_that_is_not_used() -> None:
    answers = Answers()
    manager = PlainAccessConfig("manager1", "s", None, True)
    answers.accounts = {
        "b:1": [manager, replace(manager, access_key="manager2", topic_perms=["Orders=PUB"])],
        "b:2": [],
    }
    [accounts, _] = asyncio.run(AclList(reads(answers)).show(Visit("", Access.ADMIN, ""))).tables
    column = next(one for one in accounts.columns if one.key == "default_topic")
    assert column.says is not None
    found = {row.access_key: column.says(row) for row in accounts.rows}
    assert found == {"manager1": ("everything allowed (admin)", {}), "manager2": None}


def test_check_is_asked_of_all_accounts_or_of_one() -> None:
    def decided(**arguments: str) -> list[Any]:
        view = asyncio.run(AccessCheck(reads(Answers())).show(Visit("", Access.VIEWER, "", {}, arguments)))
        return list(view.tables[0].rows) if view.tables else []

    assert decided() == []
    assert [(row.access_key, row.broker, row.allowed) for row in decided(action="sub", resource="Orders")] == [
        ("billing1", "a", False),
        ("billing1", "b", False),
    ]
    [row, _] = decided(action="sub", resource="Orders", account="nobody12")
    assert row.rule == "there is no account nobody12"
