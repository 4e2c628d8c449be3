"""Writes the pages of request codes and of who may make them: `python -m broker.manual`.

docs/reference/request-codes.md and access.md are made whole from `served_requests`, `request_access` and the rules of ACL. A test fails when they are
stale, another tries all requests on a running appliance.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from broker.access.access_rules import AccessRules
from broker.access.account import Account
from broker.access.permission import PUB_SUB, Permission
from broker.served_requests import NAME_SERVER, ROCKETMQ_5, SERVED, TO_CLIENTS, UNUSED
from headrace.protocol.acl_signature import ACCESS_KEY, SIGNATURE, sign
from headrace.protocol.bodies.heartbeat import HeartbeatData
from headrace.protocol.remoting_command import create_request
from headrace.protocol.request_access import ACCESS, Access
from headrace.protocol.request_code import RequestCode

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "reference" / "request-codes.md"
ACCESS_PAGE: Final = PAGE.with_name("access.md")


_TEXT: Final = """\
<!-- made by `python -m broker.manual` from broker/served_requests.py: do not edit -->

# Request codes

The broker answers the requests of the first table on its main port and on the VIP channel (the port two below it), pulls on the main port
only. Every other code is answered with code 3, `request type … not supported`.

## The broker serves

RocketMQ 5's lite pull consumers send LITE_PULL_MESSAGE; it is handled like PULL_MESSAGE. GET_TOPIC_CONFIG is a request of
RocketMQ 5's tools and of the dashboard's pages about topics, which a 4.9 broker does not answer. GET_BROKER_CLUSTER_ACL_CONFIG shows secret
keys; RocketMQ 4.9.8 refuses it, older releases answer it to everybody, and this broker answers it to admin accounts.

The last column shows who may make a request without an account: `client` and `read` everyone who can reach the port, `admin` administrators
only, unless the peer is on the same host ([security](../operations/security.md)).

| code | request | module | access |
|---|---|---|---|
{served}

## The name server serves

| code | request | access |
|---|---|---|
{name_server}

## From the broker to its clients

{to_clients}

## Defined by RocketMQ 4.9, but not supported

{unused}

## RocketMQ 5 only

{rocketmq_5}
"""


def format_page() -> str:
    """The page in Markdown."""
    return _TEXT.format(
        served="\n".join(
            f"| {code:d} | `{code.name}` | `{module}` | {ACCESS[code].value} |"
            for code, module in sorted(SERVED.items())
        ),
        name_server="\n".join(f"| {code:d} | `{code.name}` | {ACCESS[code].value} |" for code in sorted(NAME_SERVER)),
        to_clients=_listed(TO_CLIENTS),
        unused=_listed(UNUSED),
        rocketmq_5=_listed(ROCKETMQ_5),
    )


_ACCESS_TEXT: Final = """\
<!-- made by `python -m broker.manual`: do not edit -->

# Who may make which request

What a peer on another host is allowed when the server listens on more than loopback addresses, with the default configuration: no `adminAllow`, no client
certificate. [Security](../operations/security.md) explains how to allow more. A peer on the same host, on an address in `adminAllow` or with a client
certificate is never refused in the column *without ACL*.

- **without ACL**: `aclEnable=false`, the default.
- **no account**, **plain account**, **admin account**: `aclEnable=true`, and the request is not signed, or signed by such an account. The plain account has
  PUB and SUB on all topics and SUB on all groups. A request that is *allowed* may still be refused for an account with fewer permissions.

## Broker

| code | request | without ACL | no account | plain account | admin account |
|---|---|---|---|---|---|
{broker}

## Name server

Name servers know no accounts, as in RocketMQ.

| code | request | every peer |
|---|---|---|
{name_server}
"""

_ANOTHER_HOST: Final = "192.0.2.2"
_PLAIN: Final = Account("plain-account", "plain-secret", default_topic=PUB_SUB, default_group=Permission.SUB)
_ADMIN: Final = Account("admin-account", "admin-secret", is_admin=True)
_RULES: Final = AccessRules({account.access_key: account for account in (_PLAIN, _ADMIN)})

PEERS: Final[Mapping[str, tuple[AccessRules | None, Account | None]]] = {
    "without ACL": (None, None),
    "no account": (_RULES, None),
    "plain account": (_RULES, _PLAIN),
    "admin account": (_RULES, _ADMIN),
}
"""The columns: the rules that the broker goes by, and who signs."""


FIELDS: Final = {
    "topic": "T", "b": "T", "consumerGroup": "G", "group": "G", "a": "G", "clientID": "C", "queueId": "0", "commitOffset": "0",
}  # fmt: skip
"""Fields by which each request shows the topic and the group that it is about."""


def body_of(code: RequestCode) -> bytes:
    """The body of a request that cannot be read without one."""
    return HeartbeatData("C").encode() if code == RequestCode.HEART_BEAT else b""


def outcome(code: RequestCode, peer: str) -> str:
    """Whether a peer on another host is `allowed` a request or `refused`. `peer`: a key of PEERS."""
    rules, account = PEERS[peer]
    if code in NAME_SERVER:
        rules = account = None
    request = create_request(code, dict(FIELDS), body_of(code))
    if account is not None:
        fields = FIELDS | {ACCESS_KEY: account.access_key}
        request.ext_fields = fields | {SIGNATURE: sign(account.secret_key, fields, request.body)}
    if rules is not None and rules.check(_ANOTHER_HOST, request) is not None:
        return "refused"
    is_admin = account is not None and account.is_admin
    return "refused" if ACCESS[code] is Access.ADMIN and not is_admin else "allowed"


def format_access_page() -> str:
    """The page of who may make which request."""
    return _ACCESS_TEXT.format(
        broker="\n".join(
            f"| {code:d} | `{code.name}` | {' | '.join(outcome(code, peer) for peer in PEERS)} |"
            for code in sorted(SERVED)
        ),
        name_server="\n".join(
            f"| {code:d} | `{code.name}` | {outcome(code, 'without ACL')} |" for code in sorted(NAME_SERVER)
        ),
    )


def _listed(codes: Iterable[RequestCode]) -> str:
    return "\n".join(f"- {code:d} `{code.name}`" for code in sorted(codes))


def main() -> None:
    """Writes both pages."""
    PAGE.write_text(format_page(), encoding="utf-8")
    ACCESS_PAGE.write_text(format_access_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
