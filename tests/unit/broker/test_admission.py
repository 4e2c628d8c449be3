"""What a connection's admission refuses is refused on the hot paths as on the plain one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.sending.hot_send import COMPILED
from headrace.protocol.remoting_command import RemotingCommand, response_to
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from headrace.remoting import OPEN, Admission, Connection
from support.small_broker import Peer, SmallBroker, pull_fields, send_fields

SENDS = {RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE}


def refusing(*codes: int) -> Admission:
    def check(_: Connection, command: RemotingCommand) -> RemotingCommand | None:
        if command.code not in codes:
            return None
        return response_to(command, ResponseCode.NO_PERMISSION, "not for guests")

    return Admission("guest", check)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[SmallBroker]:
    made = SmallBroker(tmp_path)
    made.topic()
    yield made
    made.close()


@pytest.fixture(params=["hot", "plain"])
def client(broker: SmallBroker, request: pytest.FixtureRequest) -> Peer:
    return broker.connect_hot() if request.param == "hot" else broker.connect()


def frames(code: int, ext: dict[str, object], count: int = 3) -> bytes:
    fields = {key: str(value) for key, value in ext.items()}
    return b"".join(
        RemotingCommand(code, version=409, opaque=number, ext_fields=fields, body=b"x").encode()
        for number in range(count)
    )


def codes_of(client: Peer, data: bytes) -> list[int]:
    client.handle(data)
    return [answer.code for answer in client.received()]


def test_refused_sends_store_nothing(broker: SmallBroker, client: Peer) -> None:
    client.connection.admission = refusing(*SENDS)
    assert codes_of(client, frames(RequestCode.SEND_MESSAGE_V2, send_fields())) == [ResponseCode.NO_PERMISSION] * 3
    assert (broker.path.requests_in, broker.records()) == (0, [])


def test_pulls_are_refused_on_the_hot_path_too(broker: SmallBroker, client: Peer) -> None:
    client.send()
    broker.dispatch()
    pulls = frames(RequestCode.PULL_MESSAGE, pull_fields())
    assert codes_of(client, pulls) == [ResponseCode.SUCCESS] * 3
    client.connection.admission = refusing(RequestCode.PULL_MESSAGE)
    assert codes_of(client, pulls) == [ResponseCode.NO_PERMISSION] * 3
    assert client.send().code == ResponseCode.SUCCESS


def test_hot_paths_are_used_if_everything_is_allowed(broker: SmallBroker) -> None:
    client, restricted = broker.connect_hot(), broker.connect_hot(40001)
    restricted.connection.admission = refusing()
    for one, hot in ((restricted, 0), (client, 3 if COMPILED else 0)):
        sends, pulls = broker.path.requests_in, broker.pull_path.pulls_answered
        assert codes_of(one, frames(RequestCode.SEND_MESSAGE_V2, send_fields())) == [ResponseCode.SUCCESS] * 3
        broker.dispatch()
        one.pull()  # prepares the hot path
        assert codes_of(one, frames(RequestCode.PULL_MESSAGE, pull_fields())) == [ResponseCode.SUCCESS] * 3
        assert broker.path.requests_in - sends == hot
        assert broker.pull_path.pulls_answered - pulls >= hot
        assert hot or broker.pull_path.pulls_answered == pulls


def test_admission_changed_within_a_read_applies_to_the_next_frame(broker: SmallBroker) -> None:
    client = broker.connect_hot()

    def check(connection: Connection, command: RemotingCommand) -> RemotingCommand | None:
        connection.admission = OPEN
        return response_to(command, ResponseCode.NO_PERMISSION, "once")

    client.connection.admission = Admission(check=check)
    answers = codes_of(client, frames(RequestCode.SEND_MESSAGE_V2, send_fields()))
    assert answers == [ResponseCode.NO_PERMISSION, ResponseCode.SUCCESS, ResponseCode.SUCCESS]


def test_request_on_the_plain_path_can_restrict_later_sends(broker: SmallBroker) -> None:
    client = broker.connect_hot()
    unused = 4711

    def restrict(connection: Connection, command: RemotingCommand) -> RemotingCommand:
        connection.admission = refusing(*SENDS)
        return response_to(command, 0)

    broker.handlers.register(unused, restrict)
    data = frames(RequestCode.SEND_MESSAGE_V2, send_fields(), 1) + frames(unused, {}, 1)
    answers = codes_of(client, data + frames(RequestCode.SEND_MESSAGE_V2, send_fields(), 2))
    assert sorted(answers) == sorted([0, 0, ResponseCode.NO_PERMISSION, ResponseCode.NO_PERMISSION])
    assert len(broker.records()) == 1


def test_hot_paths_are_used_if_only_admin_requests_are_checked(broker: SmallBroker, client: Peer) -> None:
    refuse = refusing(RequestCode.UPDATE_BROKER_CONFIG, *SENDS)
    client.connection.admission = Admission("guest", refuse.check, checks_hot_requests=False)
    hot = client.connection.hot_path is not None and COMPILED
    sends = frames(RequestCode.SEND_MESSAGE_V2, send_fields())
    assert codes_of(client, sends) == [ResponseCode.SUCCESS if hot else ResponseCode.NO_PERMISSION] * 3
    assert codes_of(client, frames(RequestCode.UPDATE_BROKER_CONFIG, {}, 1)) == [ResponseCode.NO_PERMISSION]
