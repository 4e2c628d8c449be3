import zlib
from collections.abc import Callable
from typing import Any

import pytest

from headrace.errors import RemoteProtocolError
from headrace.model import (
    ConsumeFromWhere,
    ConsumeType,
    DataVersion,
    MessageModel,
    MessageQueue,
    SubscriptionData,
    SubscriptionGroupConfig,
    TopicConfig,
    TopicFilterType,
)
from headrace.protocol import LanguageCode, fastjson
from headrace.protocol.bodies import (
    BrokerData,
    ClusterInfo,
    Connection,
    ConsumerConnection,
    ConsumerData,
    ConsumerOffsetSerializeWrapper,
    ConsumerRunningInfo,
    ConsumeStats,
    HeartbeatData,
    LockBatchRequestBody,
    OffsetWrapper,
    ProcessQueueInfo,
    ProducerData,
    QueueData,
    QueueTimeSpan,
    RegisterBrokerBody,
    ResetOffsetBody,
    TopicConfigSerializeWrapper,
    TopicRouteData,
    decode_bean,
    decode_properties_text,
    encode_bean,
    encode_properties_text,
)
from headrace.protocol.bodies.stats import ConsumeStatsList, TopicOffset, TopicStatsTable
from headrace.protocol.json_bean import JsonBody, from_value, to_value

QUEUE = MessageQueue("T", "b", 0)
TOPIC = TopicConfig("TopicTest", 4, 4)


def test_route_has_bare_and_quoted_keys() -> None:
    route = TopicRouteData(
        [QueueData("broker-a", 4, 4, 6)], [BrokerData("broker-a", "C", {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"})]
    )
    assert route.encode() == (
        b'{"brokerDatas":[{"brokerAddrs":{0:"10.0.0.1:10911",1:"10.0.0.2:10911"},"brokerName":"broker-a","cluster":"C"}],'
        b'"filterServerTable":{},"queueDatas":[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":4}]}'
    )
    assert b'"brokerAddrs":{"0":"10.0.0.1:10911",' in route.encode_standard()
    assert TopicRouteData.decode(route.encode()) == TopicRouteData.decode(route.encode_standard()) == route
    assert route.broker_datas[0].master_address == "10.0.0.1:10911"


def test_cluster_with_bare_keys_is_decoded() -> None:
    text = b'{"brokerAddrTable":{"a":{"brokerAddrs":{0:"h:1"},"brokerName":"a","cluster":"C"}},"clusterAddrTable":{"C":["a"]}}'
    cluster = ClusterInfo.decode(text)
    assert cluster.broker_addr_table["a"].broker_addrs == {0: "h:1"}
    assert cluster.encode() == text


def test_heartbeat_has_rocketmqs_format() -> None:
    subscription = SubscriptionData.build("T", "TagA || TagB", sub_version=1700000000000)
    beat = HeartbeatData(
        "10.0.0.5@4711#123456",
        [ProducerData("PG")],
        [
            ConsumerData(
                "CG",
                ConsumeType.CONSUME_PASSIVELY,
                MessageModel.CLUSTERING,
                ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
                [subscription],
            )
        ],
    )
    assert beat.encode() == (
        b'{"clientID":"10.0.0.5@4711#123456","consumerDataSet":[{"consumeFromWhere":"CONSUME_FROM_LAST_OFFSET",'
        b'"consumeType":"CONSUME_PASSIVELY","groupName":"CG","messageModel":"CLUSTERING","subscriptionDataSet":['
        b'{"classFilterMode":false,"codeSet":[2598919,2598920],"expressionType":"TAG","subString":"TagA || TagB",'
        b'"subVersion":1700000000000,"tagsSet":["TagA","TagB"],"topic":"T"}],"unitMode":false}],"producerDataSet":[{"groupName":"PG"}]}'
    )
    assert HeartbeatData.decode(beat.encode()) == beat
    assert HeartbeatData.decode(b"{}") == HeartbeatData()


def test_registration_has_three_forms() -> None:
    wrapper = TopicConfigSerializeWrapper(DataVersion(1700000000000, 3), {"TopicTest": TOPIC})
    body = RegisterBrokerBody(wrapper, [])
    assert RegisterBrokerBody.decode_request(body.encode(), compressed=False) == body
    assert RegisterBrokerBody.decode_request(body.encode_compressed(), compressed=True) == body
    assert RegisterBrokerBody.decode_request(wrapper.encode(), compressed=False, version=36) == RegisterBrokerBody(
        wrapper
    )
    assert RegisterBrokerBody.decode_request(b"", compressed=True) == RegisterBrokerBody()


def test_compressed_registration_loses_flag_and_order() -> None:
    topic = TopicConfig("T", 1, 2, 4, TopicFilterType.MULTI_TAG, sys_flag=3, order=True)
    body = RegisterBrokerBody(TopicConfigSerializeWrapper(DataVersion(1, 1), {"T": topic}), [])
    read = RegisterBrokerBody.decode_request(body.encode_compressed(), compressed=True)
    assert read.topic_config.topic_config_table == {"T": TopicConfig("T", 1, 2, 4, TopicFilterType.MULTI_TAG)}


def _compressed(*pieces: bytes) -> bytes:
    return zlib.compress(b"".join(pieces))


@pytest.mark.parametrize(
    "data",
    [
        b"no zlib",
        _compressed(b"\x00\x00\x00\x09{}"),
        _compressed(b"\x00\x00\x00\x02{}"),
        _compressed(b"\x00\x00\x00\x02{}", b"\x7f\xff\xff\xff"),
        _compressed(b"\x00\x00\x00\x02{}", b"\x00\x00\x00\x01\x00\x00\x00\x03a b"),
        _compressed(b"\x00\x00\x00\x02{}", b"\x00\x00\x00\x00\x00\x00\x00\x02{}"),
        _compressed(b"\x00\x00\x00\x02{}")[:-5],
    ],
)
def test_invalid_compressed_registration_is_refused(data: bytes) -> None:
    with pytest.raises(RemoteProtocolError):
        RegisterBrokerBody.decode_request(data, compressed=True)


def test_queue_keys_may_be_bare_or_quoted() -> None:
    bare = b'{"consumeTps":0.5,"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:{"brokerOffset":7,"consumerOffset":5,"lastTimestamp":1}}}'
    stats = ConsumeStats({QUEUE: OffsetWrapper(7, 5, 1)}, 0.5)
    assert stats.encode() == bare
    assert ConsumeStats.decode(bare) == stats
    quoted = bare.replace(
        b'{{"brokerName":"b","queueId":0,"topic":"T"}:',
        b'{"{\\"brokerName\\":\\"b\\",\\"queueId\\":0,\\"topic\\":\\"T\\"}":',
    )
    assert ConsumeStats.decode(quoted) == stats
    assert stats.total_diff == 2


STATS = [
    ConsumeStats({QUEUE: OffsetWrapper(7, 5, 1), MessageQueue("%RETRY%ü", "b", 12): OffsetWrapper(-1, 0, 0)}, 0.5),
    ConsumeStats(),
]


@pytest.mark.parametrize(
    "body",
    [
        *STATS,
        TopicStatsTable({QUEUE: TopicOffset(3, 7, 1), MessageQueue("U", "b", 1): TopicOffset()}),
        ConsumeStatsList([{"g": STATS}, {"h": []}], "10.0.0.1:10911", 2),
        ConsumeStatsList([], "10.0.0.1:10911"),
    ],
)
def test_tables_of_queues_are_read_as_by_the_general_reader(body: JsonBody) -> None:
    kind, text = type(body), body.encode().decode()
    assert kind.decode(text) == kind.decode(text.encode()) == body

    def outcome(decode: Callable[[str], JsonBody], text: str) -> JsonBody | str:
        try:
            return decode(text)
        except RemoteProtocolError as error:
            return str(error)

    changed = (f"{text[:at]}{put}{text[at + 1 :]}" for at in range(len(text)) for put in ("", "0", '"'))
    for one in changed:
        assert outcome(kind.decode, one) == outcome(lambda text: from_value(kind, fastjson.loads(text)), one), one


def test_reset_offsets_are_decoded_from_map_and_list() -> None:
    body = ResetOffsetBody({QUEUE: 5})
    assert body.encode() == b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"T"}:5}}'
    assert body.encode_list() == b'{"offsetTable":[{"brokerName":"b","offset":5,"queueId":0,"topic":"T"}]}'
    assert ResetOffsetBody.decode(body.encode()) == ResetOffsetBody.decode(body.encode_list()) == body


def test_offsets_by_queue_id_are_decoded_with_bare_and_quoted_keys() -> None:
    expected = ConsumerOffsetSerializeWrapper({"T@g": {0: 3, 1: 0}})
    assert ConsumerOffsetSerializeWrapper.decode(b'{"offsetTable":{"T@g":{0:3,1:0}}}') == expected
    assert ConsumerOffsetSerializeWrapper.decode(b'{"offsetTable":{"T@g":{"0":"3","1":0}}}') == expected
    assert expected.encode_pretty() == '{\n\t"offsetTable":{\n\t\t"T@g":{0:3,1:0\n\t\t}\n\t}\n}'


@pytest.mark.parametrize(
    "bean",
    [
        ConsumeStats({QUEUE: OffsetWrapper(5, 4, 3), MessageQueue('q"{', "b\\", 1): OffsetWrapper(0, 0, 0)}, 1.0e7),
        LockBatchRequestBody("g", "c", frozenset({QUEUE, MessageQueue("S", "b", 2)})),
        ConsumerOffsetSerializeWrapper({"T@g": {0: 3, 11: 1 << 62}, "caf\u00e9\n@g": {}}),
        TopicConfig("T", 4, 8, order=True),
        SubscriptionGroupConfig("g"),
        HeartbeatData("c", [ProducerData("p")], [ConsumerData("g", subscription_data_set=[SubscriptionData.build("T", "a || b")])]),
        BrokerData("cluster", "b", {0: "127.0.0.1:1", 1: "127.0.0.1:2"}),
    ],
    ids=lambda bean: type(bean).__name__,
)  # fmt: skip
def test_text_of_a_bean_is_that_of_its_value(bean: Any) -> None:
    """Beans are written without the value in between, which the general writer takes."""
    assert encode_bean(bean).decode() == fastjson.dumps(to_value(bean))


@pytest.mark.parametrize("name", ["T,5:x@g", "T{5:@g", ',5:"', "{1:2,3:4}", "caf\u00e9@g", "\\,1:"])
def test_offsets_of_queues_with_hostile_names_are_decoded(name: str) -> None:
    body = ConsumerOffsetSerializeWrapper({name: {0: 3, 11: 1 << 62}, "T@g": {2: 0}, "None@g": {}})
    assert ConsumerOffsetSerializeWrapper.decode(body.encode()) == body
    assert ConsumerOffsetSerializeWrapper.decode(body.encode(), untrusted=True) == body


def test_missing_group_fields_have_their_defaults() -> None:
    assert decode_bean(SubscriptionGroupConfig, b'{"groupName":"g","retryQueueNums":2}') == SubscriptionGroupConfig(
        "g", retry_queue_count=2
    )
    assert encode_bean(SubscriptionGroupConfig("g")) == (
        b'{"brokerId":0,"consumeBroadcastEnable":true,"consumeEnable":true,"consumeFromMinEnable":true,"groupName":"g",'
        b'"notifyConsumerIdsChangedEnable":true,"retryMaxTimes":16,"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1}'
    )


def test_decoding_is_as_tolerant_as_fastjson() -> None:
    text = b"{topicName:'T',readQueueNums:'3',perm:null,order:'TRUE',topicFilterType:'OTHER',unknown:{},topicSysFlag:'',writeQueueNums:2.0}"
    assert decode_bean(TopicConfig, text) == TopicConfig("T", 3, 2, order=True)
    connection = ConsumerConnection.decode(b'{"connectionSet":[{"language":"KLINGON"},{"language":9},null]}')
    assert connection.connection_set == [Connection(), Connection(language=LanguageCode.GO)]
    assert connection.consume_type is None


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (TopicConfig, b"{}"),
        (TopicConfig, b"[]"),
        (TopicConfig, b'{"topicName":"T","perm":"six"}'),
        (TopicConfig, b'{"topicName":"T","perm":[]}'),
        (TopicConfig, b'{"topicName":"T","perm":1e30}'),
        (TopicConfig, b'{"topicName":"T","perm":"99999999999999999999999"}'),
        (TopicConfig, b'{"topicName":"T","order":[]}'),
        (ConsumeStats, b'{"offsetTable":[]}'),
        (ConsumeStats, b'{"offsetTable":{0:{}}}'),
        (ConsumeStats, b'{"offsetTable":{"x":{}}}'),
        (ConsumeStats, b'{"consumeTps":"fast"}'),
        (ConsumeStats, b'{"consumeTps":{}}'),
        (LockBatchRequestBody, b'{"mqSet":{}}'),
        (LockBatchRequestBody, b'{"mqSet":[{"topic":"T"}]}'),
        (TopicRouteData, b'{"brokerDatas":[{"brokerName":"b","brokerAddrs":{"x":"h:1"}}]}'),
    ],
)
def test_value_of_the_wrong_type_is_a_protocol_error(kind: Any, text: str) -> None:
    with pytest.raises(RemoteProtocolError):
        decode_bean(kind, text)


def test_running_info_keeps_rocketmqs_spelling() -> None:
    info = ConsumerRunningInfo(mq_table={QUEUE: ProcessQueueInfo(droped=True, cached_msg_size_in_mib=3)})
    text = info.encode()
    assert b'"droped":true' in text
    assert b'"cachedMsgSizeInMiB":3' in text
    assert ConsumerRunningInfo.decode(text) == info


def test_time_span_contains_its_times_also_as_text() -> None:
    span = QueueTimeSpan(QUEUE, 1, 2, 3, 4)
    assert span.min_time_stamp_str is not None
    assert span.min_time_stamp_str.endswith(":001")


def test_properties_text_equals_javas() -> None:
    assert encode_properties_text({"a": 1, "b": "x y"}) == "a=1\nb=x y\n"
    text = "# comment\n! another\r\n\n  key = value with = sign \nb:2\nc 3\nlong=one\\\n   two\nuni=\\u4e2d\\t\\=\nempty\nb=4"
    assert decode_properties_text(text) == {
        "key": "value with = sign ",
        "b": "4",
        "c": "3",
        "long": "onetwo",
        "uni": "中\t=",
        "empty": "",
    }
    assert decode_properties_text(b"a=\\uD800") == {"a": "?"}
    with pytest.raises(RemoteProtocolError):
        decode_properties_text("a=\\u12")
