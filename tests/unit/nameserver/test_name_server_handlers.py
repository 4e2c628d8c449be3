import zlib
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import RemoteProtocolError
from headrace.protocol import fastjson
from headrace.protocol.headers.name_server import GetRouteInfoRequestHeader
from headrace.protocol.remoting_command import RemotingCommand, create_request
from headrace.protocol.request_code import RequestCode
from headrace.remoting import not_supported
from nameserver.config import NameServerConfig
from nameserver.handlers import NameServerHandlers
from nameserver.kv_config import KvConfig
from nameserver.routes import RouteTable
from nameserver.settings import Settings


class Peer:
    remote = "192.0.2.9:5555"


class Asking:
    """Calls the handlers as a connection would."""

    def __init__(self, directory: Path) -> None:
        self.routes = RouteTable(lambda: 0)
        self.settings = Settings(NameServerConfig(), directory / "namesrv.properties")
        self.table = NameServerHandlers(self.routes, KvConfig(directory / "kvConfig.json"), self.settings).table()
        self.peer = Peer()

    def __call__(self, code: int, body: bytes = b"", *, version: int = 409, **ext: str) -> RemotingCommand:
        return self.send(create_request(code, ext or None, body), version)

    def send(self, request: RemotingCommand, version: int) -> RemotingCommand:
        request.version = version
        answer: Any = self.table.handler_for(request.code)(self.peer, request)
        assert isinstance(answer, RemotingCommand)
        assert answer.opaque == request.opaque
        return answer

    def register(
        self, body: dict[str, Any] | bytes, *, version: int = 409, name: str = "broker-é/a", id_: str = "0", **ext: str
    ) -> RemotingCommand:
        data = body if isinstance(body, bytes) else fastjson.dumps(body).encode()
        ext = {
            "brokerName": name,
            "brokerAddr": f"192.0.2.1:1091{id_}",
            "clusterName": "C",
            "haServerAddr": f"192.0.2.1:2091{id_}",
            "brokerId": id_,
            **ext,
        }
        return self(RequestCode.REGISTER_BROKER, data, version=version, **ext)


TOPICS = {
    "dataVersion": {"counter": 1, "timestamp": 1},
    "topicConfigTable": {"T": {"topicName": "T", "perm": 6, "readQueueNums": 4, "writeQueueNums": 4}},
}
BODY = {"filterServerList": [], "topicConfigSerializeWrapper": TOPICS}


@pytest.fixture
def ask(tmp_path: Path) -> Asking:
    return Asking(tmp_path)


def test_exactly_the_name_server_codes_are_supported(ask: Asking) -> None:
    assert ask.table.codes() == {
        100,
        101,
        102,
        103,
        104,
        105,
        106,
        205,
        206,
        216,
        219,
        224,
        304,
        311,
        312,
        313,
        318,
        319,
        322,
        327,
    }
    assert ask.table.handler_for(10) is not_supported
    assert ask(217).code == 3


def test_registration_format_depends_on_the_version(ask: Asking) -> None:
    assert ask.register(TOPICS, version=36).code == 0
    assert ask.routes.topics() == ["T"]
    fresh = {**TOPICS, "dataVersion": {"counter": 2, "timestamp": 1}, "topicConfigTable": {"U": {"topicName": "U"}}}
    assert ask.register(fresh, version=37).code == 0
    assert ask.routes.topics() == ["T"]  # a body of version 37 has its topics in another place
    assert ask.register({**BODY, "topicConfigSerializeWrapper": fresh}, version=37).code == 0
    assert ask.routes.topics() == ["T", "U"]


def test_registration_with_a_wrong_crc_changes_nothing(ask: Asking) -> None:
    data = fastjson.dumps(BODY).encode()
    crc = zlib.crc32(data) & 0x7FFFFFFF
    assert ask.register(data, bodyCrc32=str(crc ^ 1)).code == 1
    assert ask.routes.topics() == []
    assert ask.routes.clusters() == {}
    assert ask.register(data, bodyCrc32=str(crc)).code == 0
    assert ask.routes.topics() == ["T"]


def test_registration_without_body_has_no_topics(ask: Asking) -> None:
    assert ask.register(b"").code == 0
    assert ask.routes.clusters() == {"C": ["broker-é/a"]}
    assert ask.routes.topics() == []


@pytest.mark.parametrize("compressed", ["true", "false"])
def test_invalid_registration_body_is_refused_as_a_remoting_error(ask: Asking, compressed: str) -> None:
    with pytest.raises(RemoteProtocolError):
        ask.register(b"\x00garbage", compressed=compressed)
    assert ask.routes.clusters() == {}


def test_filter_servers_are_kept_for_old_brokers_and_removed_for_others(ask: Asking) -> None:
    ask.register({**BODY, "filterServerList": ["f:1"]})
    ask.register(TOPICS, version=36)
    body = fastjson.loads(ask(105, topic="T").body)
    assert body["filterServerTable"] == {"192.0.2.1:10910": ["f:1"]}
    ask.register({"topicConfigSerializeWrapper": TOPICS})
    assert fastjson.loads(ask(105, topic="T").body)["filterServerTable"] == {}


def test_slave_receives_its_master_and_the_ordered_topics(ask: Asking) -> None:
    ask.register(BODY)
    ask(100, namespace="ORDER_TOPIC_CONFIG", key="T", value="broker-a:4")
    answer = ask.register(b"", id_="1")
    assert answer.ext == {"haServerAddr": "192.0.2.1:20910", "masterAddr": "192.0.2.1:10910"}
    assert answer.body == b'{"table":{"T":"broker-a:4"}}'


@pytest.mark.parametrize(
    ("version", "accept", "standard"),
    [
        (401, "", True),
        (479, "", True),
        (400, "", False),
        (0, "", False),
        (0, "TRUE", True),
        (0, "no", False),
    ],
)
def test_route_is_standard_json_on_request_and_fastjson_otherwise(
    ask: Asking, version: int, accept: str, standard: bool
) -> None:
    ask.register(BODY)
    body = ask(105, version=version, topic="T", acceptStandardJsonOnly=accept).body
    if standard:
        assert b'"brokerAddrs":{"0":"192.0.2.1:10910"},"brokerName":"broker-\\u00E9\\/a"' in body
    else:
        assert '"brokerAddrs":{0:"192.0.2.1:10910"},"brokerName":"broker-é/a"'.encode() in body


def test_route_of_an_unknown_topic_is_refused_in_rocketmqs_words(ask: Asking) -> None:
    answer = ask(105, topic="Unknown")
    assert (answer.code, answer.remark) == (17, "No topic route info in name server for the topic: Unknown")


def test_topic_order_is_returned_only_when_enabled(ask: Asking) -> None:
    ask.register(BODY)
    ask(100, namespace="ORDER_TOPIC_CONFIG", key="T", value="broker-a:4")
    assert b"orderTopicConf" not in ask(105, topic="T").body
    assert ask(318, b"orderMessageEnable=true").code == 0
    assert fastjson.loads(ask(105, topic="T").body)["orderTopicConf"] == "broker-a:4"
    ask(102, namespace="ORDER_TOPIC_CONFIG", key="T")
    assert b"orderTopicConf" not in ask(105, topic="T").body


def test_missing_name_fields_match_nothing(ask: Asking) -> None:
    ask.register(BODY)
    codes = {code: ask(code).code for code in (101, 102, 105, 205, 216, 219, 224, 327)}
    assert codes == {101: 22, 102: 0, 105: 17, 205: 0, 216: 0, 219: 22, 224: 0, 327: 0}
    assert ask.routes.topics() == ["T"]


def test_config_changes_are_refused_with_the_right_code(ask: Asking) -> None:
    assert ask(318, b"kvConfigPath=/elsewhere").code == 16
    assert ask(318, b"orderMessageEnable=perhaps").code == 1
    assert ask(318, b"").code == 0
    assert b"orderMessageEnable=false\n" in ask(319).body


def test_system_topic_list_includes_a_broker_address(ask: Asking) -> None:
    assert ask(304).body == b'{"topicList":[]}'
    ask.register(BODY, name="broker-a")
    assert ask(304).body == b'{"brokerAddr":"192.0.2.1:10910","topicList":["C","broker-a"]}'


def test_topic_can_be_deleted_in_one_cluster_or_in_all(ask: Asking) -> None:
    ask.register(BODY)
    ask(216, topic="T", clusterName="D")
    assert ask.routes.topics() == ["T"]
    ask(216, topic="T", clusterName="C")
    assert ask.routes.topics() == []


def test_sdk_headers_have_the_same_fields(ask: Asking) -> None:
    ask.register(BODY)
    ext = GetRouteInfoRequestHeader("T", accept_standard_json_only=True).to_ext()
    assert ext.keys() == {"topic", "acceptStandardJsonOnly"}
    assert b'{"0":' in ask.send(create_request(105, ext), version=0).body
