"""Writes the page of request codes: `python -m broker.manual [page]`.

The page is docs/reference/request-codes.md, made whole from `served_requests`. A test fails when it is stale.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from broker.served_requests import NAME_SERVER, ROCKETMQ_5, SERVED, TO_CLIENTS, UNUSED
from headrace.protocol.request_access import ACCESS
from headrace.protocol.request_code import RequestCode

PAGE: Final = Path(__file__).resolve().parent.parent / "docs" / "reference" / "request-codes.md"


_TEXT: Final = """\
<!-- made by `python -m broker.manual` from broker/served_requests.py: do not edit -->

# Request codes

The broker answers the requests of the first table on its main port and on the fast one two below it, pulls on the main port
only. Every other code is answered with code 3, `request type … not supported`.

## The broker serves

LITE_PULL_MESSAGE is how RocketMQ 5's lite pull consumers ask; it is answered as PULL_MESSAGE is. GET_TOPIC_CONFIG is a request of
RocketMQ 5's tools and of the dashboard's pages about topics, which a 4.9 broker does not answer. GET_BROKER_CLUSTER_ACL_CONFIG shows secret
keys; RocketMQ 4.9.8 refuses it, older releases answer it to everybody, and this broker answers it to admin accounts.

The last column tells who may make a request without an account: `client` and `read` everyone who reaches the port, `admin` administrators
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

## Named by RocketMQ 4.9 and answered nowhere

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


def _listed(codes: Iterable[RequestCode]) -> str:
    return "\n".join(f"- {code:d} `{code.name}`" for code in sorted(codes))


def main() -> None:
    """Writes the page named on the command line, else the manual's own."""
    page = Path(sys.argv[1]) if len(sys.argv) > 1 else PAGE
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(format_page(), encoding="utf-8")


if __name__ == "__main__":
    main()
