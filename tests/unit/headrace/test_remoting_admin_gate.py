"""Who may make requests that change a server: the same host, adminAllow, client certificates; nobody else."""

import asyncio
import logging
from dataclasses import dataclass

import pytest

from headrace.model.address_list import parse_networks
from headrace.protocol.remoting_command import RemotingCommand, create_request, response_to
from headrace.protocol.request_access import ADMIN_CODES
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from headrace.remoting import OPEN, Admission, Connection, HandlerTable, RemotingClient, RemotingServer
from headrace.remoting.admin_gate import AdminGate


@dataclass
class Peer:
    """What a gate asks of a connection."""

    host: str
    local_address: str = "192.0.2.1"
    peer_certificate: str | None = None

    @property
    def remote_address(self) -> tuple[str, int]:
        return self.host, 40_000


def gate(admin_allow: str = "", *, is_disabled: bool = False) -> AdminGate:
    return AdminGate("broker", ADMIN_CODES, parse_networks("adminAllow", admin_allow), is_disabled=is_disabled)


def refusal_of(gate: AdminGate, peer: Peer, code: RequestCode) -> RemotingCommand | None:
    """The refusal of a request on a connection that the gate has admitted."""
    admission = gate.admit(peer)  # type: ignore[arg-type]
    return None if admission.check is None else admission.check(peer, create_request(code))


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.8.9.10", "127.0.0.1"),
        ("::1", "::1"),
        ("::ffff:127.0.0.1", "::ffff:127.0.0.1"),
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.1"),
        ("fe80::1%eth0", "fe80::1%eth0"),
    ],
)
def test_peer_on_the_same_host_is_an_administrator(host: str, local: str) -> None:
    assert gate().admit(Peer(host, local)) is OPEN  # type: ignore[arg-type]


@pytest.mark.parametrize("host", ["192.0.2.2", "10.0.0.1", "fd00::1", "::ffff:10.0.0.1", "0.0.0.0", "", "unix"])
def test_other_peers_may_not_change_the_broker(host: str) -> None:
    for code in ADMIN_CODES:
        answer = refusal_of(gate(), Peer(host), RequestCode(code))
        assert answer is not None
        assert answer.code == ResponseCode.NO_PERMISSION
    for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.HEART_BEAT, RequestCode.GET_BROKER_CONFIG):
        assert refusal_of(gate(), Peer(host), code) is None


def test_other_peers_keep_the_hot_paths() -> None:
    admission = gate().admit(Peer("192.0.2.2"))  # type: ignore[arg-type]
    assert not admission.checks_hot_requests
    assert admission.check is not None


@pytest.mark.parametrize("text", ["192.0.2.0/24", "198.51.100.7,192.0.2.2", "fd00::/8; 192.0.2.2", "0.0.0.0/0"])
def test_peer_in_admin_allow_is_an_administrator(text: str) -> None:
    assert gate(text).admit(Peer("192.0.2.2")) is OPEN  # type: ignore[arg-type]
    assert gate(text).admit(Peer("::ffff:192.0.2.2")) is OPEN  # type: ignore[arg-type]
    assert gate("192.0.2.3/32").admit(Peer("192.0.2.2")) is not OPEN  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["localhost", "10.0.0", "10.0.0.1/33", "10.0.0.1/8", "10.0.0.1-9", "*"])
def test_invalid_admin_allow_is_an_error_that_names_the_key(text: str) -> None:
    with pytest.raises(ValueError, match="adminAllow="):
        parse_networks("adminAllow", text)


def test_certificate_makes_an_administrator_even_if_it_was_verified_after_the_connection_was_admitted() -> None:
    peer = Peer("192.0.2.2")
    admission = gate().admit(peer)  # type: ignore[arg-type]
    request = create_request(RequestCode.DELETE_TOPIC_IN_BROKER)
    assert admission.check is not None
    assert admission.check(peer, request) is not None
    peer.peer_certificate = "CN=admin"
    assert admission.check(peer, request) is None
    assert gate().admit(peer) is OPEN  # type: ignore[arg-type]


def test_disabled_gate_lets_everyone_in() -> None:
    assert gate(is_disabled=True).admit(Peer("192.0.2.2")) is OPEN  # type: ignore[arg-type]


def test_refusal_names_the_request_the_peer_and_what_to_set() -> None:
    answer = refusal_of(gate(), Peer("192.0.2.2"), RequestCode.UPDATE_BROKER_CONFIG)
    assert answer is not None
    assert answer.remark == (
        "UPDATE_BROKER_CONFIG refused: 192.0.2.2 is not allowed to administer this broker;"
        " to allow it, add 192.0.2.2 to adminAllow in the broker's configuration and restart"
    )


def test_refused_requests_are_answered_counted_and_logged_a_limited_number_of_times(
    caplog: pytest.LogCaptureFixture,
) -> None:
    restricted = gate().admit(Peer("192.0.2.2"))  # type: ignore[arg-type]

    def admit(_: Connection) -> Admission:
        return restricted

    async def main() -> tuple[int, int]:
        table = HandlerTable(lambda _, command: response_to(command, 0))
        server = RemotingServer(table, admit=admit)
        port = await server.listen("127.0.0.1", 0)
        client = RemotingClient()
        try:
            answers = [
                await client.request(f"127.0.0.1:{port}", create_request(RequestCode.CLEAN_UNUSED_TOPIC), 5000)
                for _ in range(100)
            ]
            assert {answer.code for answer in answers} == {ResponseCode.NO_PERMISSION}
            allowed = await client.request(f"127.0.0.1:{port}", create_request(RequestCode.HEART_BEAT), 5000)
            return allowed.code, server.refused_requests
        finally:
            await client.close()
            await server.stop(1)

    with caplog.at_level(logging.WARNING):
        assert asyncio.run(main()) == (0, 100)
    lines = [record.getMessage() for record in caplog.records if "request refused code=316" in record.getMessage()]
    assert 0 < len(lines) < 100
