"""Access control allows and refuses the same requests as Apache's broker, with the same code and remark."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.protocol.remoting_command import SerializeType
from support.acl_requests import ACCOUNTS, REFUSAL, SECRET, Row, rows
from support.appliance import Appliance
from support.client import Client
from support.java import Java, JavaError
from support.other_clients import OtherClientError, run
from support.plain_client import PlainClient
from support.reference import Reference, disposable
from support.sdk import await_registered
from support.servers import Server

SETTINGS = {"aclEnable": "true", "brokerName": "guarded"}
Answer = tuple[int, str | None]


def with_accounts(home: Path, text: str) -> Path:
    """Writes the file of accounts."""
    (home / "conf").mkdir(parents=True)
    (home / "conf" / "plain_acl.yml").write_text(text)
    return home


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, Server]]:
    """Apache's broker and ours, with the same accounts."""
    folder = tmp_path_factory.mktemp("acl")
    home = with_accounts(folder / "home", ACCOUNTS)
    with_accounts(folder / "ours", ACCOUNTS)
    with (
        disposable(Reference(folder / "apache", settings=SETTINGS, more=(f"--home={home}",))) as apache,
        disposable(Appliance(folder / "ours", settings=SETTINGS)) as ours,
    ):
        for server in (apache, ours):
            await_registered(server.name_server)
        yield apache, ours


def answers(server: Server, encoding: SerializeType) -> dict[Row, Answer]:
    """The answers to all requests, made one after the other."""
    with PlainClient(server.broker) as client:
        client.serialize_type = encoding
        return {row: row.ask(client) for row in rows()}


@pytest.mark.slow
@pytest.mark.parametrize("encoding", SerializeType)
def test_every_request_is_allowed_or_refused_as_by_apaches_broker(
    servers: tuple[Server, Server], encoding: SerializeType
) -> None:
    apaches, ours = (answers(server, encoding) for server in servers)
    refused = [remark for _, remark in apaches.values() if remark is not None]
    assert len(apaches) > 2000
    assert len(apaches) / 5 < len(refused) < len(apaches) * 4 / 5
    assert {remark.removeprefix(REFUSAL).split()[0] for remark in refused} == {"No", "Check", "Need"}
    differ = {str(row): (apaches[row], ours[row]) for row in apaches if apaches[row] != ours[row]}
    assert not differ, f"{len(differ)} of {len(apaches)} rows differ: {dict(list(differ.items())[:10])}"


@pytest.mark.slow
def test_official_client_sends_and_receives_with_its_own_signatures(servers: tuple[Server, Server], java: Java) -> None:
    for server in servers:
        _create(server, "Signed")
        client = Client(java, server)
        client.await_route("Signed")
        arguments = {"topic": "Signed", "group": "signed-group", "count": 20, "deadlineMs": 60_000}
        allowed = {"accessKey": "exceptions", "secretKey": SECRET}
        assert client.call("signed-round", **arguments, **allowed) == 20
        for access_key, secret, said in (
            ("exceptions", "wrong-secret", "Check signature failed for accessKey=exceptions"),
            ("subscriber", SECRET, "No default permission for topic:Signed"),
            ("stranger", SECRET, "No acl config for stranger"),
        ):
            with pytest.raises(JavaError, match=said):
                client.call("signed-round", **arguments, accessKey=access_key, secretKey=secret)


@pytest.mark.slow
@pytest.mark.parametrize("language", ["go", "node"])
def test_go_and_node_clients_send_and_receive_with_signatures_and_are_refused_without(
    servers: tuple[Server, Server], java: Java, language: str
) -> None:
    topic = f"Signed-{language}"
    # The push consumer of Go writes refusals only to its log.
    consume = {"go": "pull", "node": "consume"}[language]
    for server in servers:
        _create(server, topic)
        arguments = {"namesrv": server.name_server, "topic": topic, "group": f"{language}-group", "count": 20}
        allowed = {"accessKey": "exceptions", "secretKey": SECRET}
        Client(java, server).await_route(topic)
        sent = run(language, "send", **arguments, **allowed)
        assert sorted(run(language, "consume", **arguments, **allowed)) == sorted(sent)
        assert len(sent) == 20
        for do, access_key, secret, remark in (
            ("send", "", "", "No accessKey is configured"),
            ("send", "exceptions", "wrong-secret", "Check signature failed for accessKey=exceptions"),
            ("send", "stranger", SECRET, "No acl config for stranger"),
            ("send", "subscriber", SECRET, f"No default permission for topic:{topic}"),
            (consume, "", "", "No accessKey is configured"),
            (consume, "exceptions", "wrong-secret", "Check signature failed for accessKey=exceptions"),
            (consume, "publisher", SECRET, "No default permission for "),
        ):
            with pytest.raises(OtherClientError, match=rf"(CODE|Code): 1, .*{REFUSAL}{remark}"):
                run(language, do, **arguments, accessKey=access_key, secretKey=secret)


@pytest.mark.slow
def test_security_token_of_the_go_client_is_refused_because_it_is_not_signed(
    servers: tuple[Server, Server], java: Java
) -> None:
    # The client sends the token as a field, but leaves it out of the signature (internal/remote/interceptor.go).
    for server in servers:
        _create(server, "Signed-token")
        Client(java, server).await_route("Signed-token")
        with pytest.raises(
            OtherClientError, match=f"CODE: 1, .*{REFUSAL}Check signature failed for accessKey=exceptions"
        ):
            run(
                "go", "send", namesrv=server.name_server, topic="Signed-token", group="token-group", count=1,
                accessKey="exceptions", secretKey=SECRET, securityToken="token",
            )  # fmt: skip


def _create(server: Server, topic: str) -> None:
    with PlainClient(server.broker) as client:
        assert Row("administrator", "create topic", topic, "").ask(client) == (0, None)
