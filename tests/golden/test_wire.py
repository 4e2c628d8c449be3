"""Every frame exchanged by RocketMQ's programs decodes as in their own classes and encodes to the same bytes."""

import zlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from headrace.errors import RemoteProtocolError
from headrace.model import DataVersion, SubscriptionGroupConfig
from headrace.protocol import FrameDecoder, RemotingCommand, RequestCode, SerializeType, decode_frame
from headrace.protocol.acl_signature import ACCESS_KEY, SIGNATURE, is_signed
from headrace.protocol.batch import decode_batch
from headrace.protocol.bodies import (
    BrokerStatsData,
    CheckClientRequestBody,
    ClusterInfo,
    ConsumeMessageDirectlyResult,
    ConsumerConnection,
    ConsumerOffsetSerializeWrapper,
    ConsumerRunningInfo,
    ConsumeStats,
    ConsumeStatsList,
    DelayOffsetSerializeWrapper,
    GetConsumerListByGroupResponseBody,
    GetConsumerStatusBody,
    GroupList,
    HeartbeatData,
    KVTable,
    LockBatchRequestBody,
    LockBatchResponseBody,
    ProducerConnection,
    ProducerTableInfo,
    QueryConsumeQueueResponseBody,
    QueryConsumeTimeSpanBody,
    QueryCorrectionOffsetBody,
    RegisterBrokerBody,
    ResetOffsetBody,
    SubscriptionGroupWrapper,
    TopicConfigSerializeWrapper,
    TopicList,
    TopicRouteData,
    TopicStatsTable,
    decode_properties_text,
)
from headrace.protocol.fastjson import loads
from headrace.protocol.ha_frame import HaFrameDecoder, ReportDecoder
from headrace.protocol.headers import (
    REQUEST_HEADERS,
    AddWritePermOfBrokerResponseHeader,
    CommandHeader,
    GetBrokerAclConfigResponseHeader,
    GetBrokerConfigResponseHeader,
    GetEarliestMsgStoretimeResponseHeader,
    GetKvConfigResponseHeader,
    OffsetResponseHeader,
    PullMessageResponseHeader,
    QueryDataVersionResponseHeader,
    QueryMessageResponseHeader,
    RegisterBrokerResponseHeader,
    SendMessageResponseHeader,
    WipeWritePermOfBrokerResponseHeader,
)
from headrace.protocol.json_bean import decode_bean, encode_bean
from headrace.protocol.record import decode_record, decode_records, encode_message
from support import golden

Bodies = dict[RequestCode, type[Any]]

REQUEST_BODIES: Bodies = {
    RequestCode.HEART_BEAT: HeartbeatData,
    RequestCode.LOCK_BATCH_MQ: LockBatchRequestBody,
    RequestCode.UNLOCK_BATCH_MQ: LockBatchRequestBody,
    RequestCode.CHECK_CLIENT_CONFIG: CheckClientRequestBody,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: SubscriptionGroupConfig,
    RequestCode.RESET_CONSUMER_CLIENT_OFFSET: ResetOffsetBody,
    RequestCode.QUERY_DATA_VERSION: DataVersion,
}

RESPONSE_BODIES: Bodies = {
    RequestCode.GET_ALL_TOPIC_CONFIG: TopicConfigSerializeWrapper,
    RequestCode.GET_BROKER_RUNTIME_INFO: KVTable,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: GetConsumerListByGroupResponseBody,
    RequestCode.LOCK_BATCH_MQ: LockBatchResponseBody,
    RequestCode.GET_ALL_CONSUMER_OFFSET: ConsumerOffsetSerializeWrapper,
    RequestCode.GET_ALL_DELAY_OFFSET: DelayOffsetSerializeWrapper,
    RequestCode.REGISTER_BROKER: KVTable,
    RequestCode.GET_ROUTEINFO_BY_TOPIC: TopicRouteData,
    RequestCode.GET_BROKER_CLUSTER_INFO: ClusterInfo,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: SubscriptionGroupWrapper,
    RequestCode.GET_TOPIC_STATS_INFO: TopicStatsTable,
    RequestCode.GET_CONSUMER_CONNECTION_LIST: ConsumerConnection,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: ProducerConnection,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: TopicList,
    RequestCode.GET_CONSUME_STATS: ConsumeStats,
    RequestCode.GET_KVLIST_BY_NAMESPACE: KVTable,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: GetConsumerStatusBody,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: ResetOffsetBody,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: GetConsumerStatusBody,
    RequestCode.GET_TOPICS_BY_CLUSTER: TopicList,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: GroupList,
    RequestCode.QUERY_CONSUME_TIME_SPAN: QueryConsumeTimeSpanBody,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: TopicList,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: TopicList,
    RequestCode.GET_CONSUMER_RUNNING_INFO: ConsumerRunningInfo,
    RequestCode.QUERY_CORRECTION_OFFSET: QueryCorrectionOffsetBody,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: ConsumeMessageDirectlyResult,
    RequestCode.GET_UNIT_TOPIC_LIST: TopicList,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: TopicList,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: TopicList,
    RequestCode.VIEW_BROKER_STATS_DATA: BrokerStatsData,
    RequestCode.GET_BROKER_CONSUME_STATS: ConsumeStatsList,
    RequestCode.QUERY_CONSUME_QUEUE: QueryConsumeQueueResponseBody,
    RequestCode.QUERY_DATA_VERSION: DataVersion,
    RequestCode.GET_ALL_PRODUCER_INFO: ProducerTableInfo,
}

RECORDS = {
    ("request", RequestCode.CHECK_TRANSACTION_STATE),
    ("request", RequestCode.CONSUME_MESSAGE_DIRECTLY),
    ("response", RequestCode.PULL_MESSAGE),
    ("response", RequestCode.QUERY_MESSAGE),
    ("response", RequestCode.VIEW_MESSAGE_BY_ID),
}

# Message bodies, whatever their sender put into them.
PLAIN_BODIES = {
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_REPLY_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2,
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
}

PROPERTIES_TEXTS = {
    ("request", RequestCode.UPDATE_BROKER_CONFIG),
    ("request", RequestCode.UPDATE_NAMESRV_CONFIG),
    ("response", RequestCode.GET_BROKER_CONFIG),
    ("response", RequestCode.GET_NAMESRV_CONFIG),
}

SEND_RESPONSES = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2,
)

RESPONSE_HEADERS: dict[RequestCode, type[CommandHeader]] = dict.fromkeys(SEND_RESPONSES, SendMessageResponseHeader) | {
    RequestCode.PULL_MESSAGE: PullMessageResponseHeader,
    RequestCode.QUERY_MESSAGE: QueryMessageResponseHeader,
    RequestCode.QUERY_CONSUMER_OFFSET: OffsetResponseHeader,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: OffsetResponseHeader,
    RequestCode.GET_MAX_OFFSET: OffsetResponseHeader,
    RequestCode.GET_MIN_OFFSET: OffsetResponseHeader,
    RequestCode.GET_EARLIEST_MSG_STORETIME: GetEarliestMsgStoretimeResponseHeader,
    RequestCode.GET_BROKER_CONFIG: GetBrokerConfigResponseHeader,
    RequestCode.GET_BROKER_CLUSTER_ACL_INFO: GetBrokerAclConfigResponseHeader,
    RequestCode.GET_KV_CONFIG: GetKvConfigResponseHeader,
    RequestCode.REGISTER_BROKER: RegisterBrokerResponseHeader,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: WipeWritePermOfBrokerResponseHeader,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: AddWritePermOfBrokerResponseHeader,
    RequestCode.QUERY_DATA_VERSION: QueryDataVersionResponseHeader,
}

# Fields that any request may carry besides those of its header, and those of RocketMQ 5 only.
EVERYWHERE = {"AccessKey", "Signature", "ReqT", "bname", "maxMsgBytes", "lo"}
EXTRA = {
    RequestCode.QUERY_DATA_VERSION: {"haServerAddr"},
    RequestCode.UNREGISTER_BROKER: {"haServerAddr"},
    RequestCode.UPDATE_AND_CREATE_TOPIC: {"attributes", "force"},
    RequestCode.END_TRANSACTION: {"topic"},
}

FIVE_ONLY_KEYS = {"heartbeatFingerprint", "withoutSub", "onlyThisBroker"}


class Exchange(NamedTuple):
    """A command, and for a response its request (None if that was sent before the scenario began)."""

    line: dict[str, Any]
    command: RemotingCommand
    request: RemotingCommand | None


def exchanges(scenario: str) -> Iterator[Exchange]:
    requests: dict[tuple[int, int, str], RemotingCommand] = {}
    for line in golden.frames(scenario):
        if not line.get("bytes"):
            continue
        command = decode_frame(line["bytes"])
        if command.is_response:
            asked = "<" if line["direction"] == ">" else ">"
            yield Exchange(line, command, requests.get((line["connection"], command.opaque, asked)))
        else:
            requests[line["connection"], command.opaque, line["direction"]] = command
            yield Exchange(line, command, None)


def whole_frames(scenario: str) -> list[bytes]:
    return [line["bytes"] for line in golden.frames(scenario) if line.get("bytes")]


every_scenario = pytest.mark.parametrize("scenario", golden.scenarios())


@every_scenario
def test_frames_decode_as_in_rocketmq(scenario: str) -> None:
    for line in golden.frames(scenario):
        if line.get("bytes"):
            command = decode_frame(line["bytes"])
            language = None if command.language is None else command.language.name
            assert {
                "type": command.serialize_type.name,
                "code": command.code,
                "flag": command.flag,
                "opaque": command.opaque,
                "language": language,
                "version": command.version,
                "remark": command.remark,
                "extFields": command.ext_fields,
                "bodyLength": len(command.body),
            }.items() <= line.items()


@every_scenario
def test_frames_encode_to_the_same_bytes(scenario: str) -> None:
    for frame in whole_frames(scenario):
        assert decode_frame(frame).encode() == frame


@every_scenario
def test_byte_stream_is_split_into_the_same_commands(scenario: str) -> None:
    frames = [frame for frame in whole_frames(scenario) if len(frame) < 4096][:60]
    decoder = FrameDecoder()
    data = b"".join(frames)
    found = [command for at in range(len(data)) for command in decoder.feed(data[at : at + 1])]
    assert found == [decode_frame(frame) for frame in frames]
    decoder.eof()


@every_scenario
def test_incomplete_frame_is_not_decoded(scenario: str) -> None:
    for line in golden.frames(scenario):
        if line.get("cut"):
            decoder = FrameDecoder()
            assert decoder.feed(line["head"]) == []
            assert decoder.pending == len(line["head"])


def check_header(header: type[CommandHeader], ext: dict[str, str], extra: set[str]) -> None:
    """Checks that the typed header holds every field of the map with the same text."""
    written = header.from_ext(ext).to_ext()
    assert {key: value for key, value in ext.items() if key not in EVERYWHERE | extra} == {
        key: value for key, value in written.items() if key in ext and key not in EVERYWHERE | extra
    }


def refused_requests(scenario: str) -> set[tuple[int, int, str]]:
    """Connection, opaque and direction of the requests that were refused."""
    return {
        (line["connection"], command.opaque, "<" if line["direction"] == ">" else ">")
        for line, command, request in exchanges(scenario)
        if request is not None and command.code != 0
    }


@every_scenario
def test_request_ext_fields_match_their_headers_or_were_refused(scenario: str) -> None:
    refused = refused_requests(scenario)
    for line, command, _ in exchanges(scenario):
        if command.is_response or command.code not in REQUEST_HEADERS:
            continue
        code = RequestCode(command.code)
        try:
            check_header(REQUEST_HEADERS[code], command.ext, EXTRA.get(code, set()))
        except RemoteProtocolError:
            assert (line["connection"], command.opaque, line["direction"]) in refused


@every_scenario
def test_response_ext_fields_match_their_headers(scenario: str) -> None:
    for _, command, request in exchanges(scenario):
        if request is not None and command.ext_fields and request.code in RESPONSE_HEADERS:
            check_header(RESPONSE_HEADERS[RequestCode(request.code)], command.ext_fields, set())


def check_register_body(command: RemotingCommand) -> None:
    compressed = command.ext.get("compressed") == "true"
    body = RegisterBrokerBody.decode_request(command.body, compressed=compressed, version=command.version)
    if compressed:
        assert zlib.decompress(body.encode_compressed()) == zlib.decompress(command.body)
    elif command.version < 37:
        assert body.topic_config.topic_config_table.keys() == loads(command.body)["topicConfigTable"].keys()
    elif command.body != b"{}":
        assert body.encode() == command.body


def check_json_body(kind: type[Any], data: bytes) -> None:
    body = decode_bean(kind, data)
    forms = [encode_bean(body)]
    if isinstance(body, TopicRouteData):
        forms.append(body.encode_standard())
    if data in forms:
        return
    # RocketMQ 5 has additional fields; everything else is the same.
    said = loads(data)
    assert set(said) & FIVE_ONLY_KEYS or data == b"{}"
    known = loads(forms[0])
    assert {key: value for key, value in said.items() if key not in FIVE_ONLY_KEYS} == {
        key: known[key] for key in known if key in said
    }


def check_records(data: bytes) -> None:
    messages = decode_records(data)
    assert b"".join(map(encode_message, messages)) == data


def check_batch(data: bytes) -> None:
    entries = decode_batch(data)
    assert entries
    assert sum(22 + len(entry.body) + len(entry.properties_raw) for entry in entries) == len(data)


def check_of(kind: str, code: RequestCode) -> Callable[[bytes], Any]:
    """How to check the body of this request or response."""
    if (kind, code) in RECORDS:
        return check_records
    if (kind, code) in PROPERTIES_TEXTS:
        return decode_properties_text
    if (kind, code) == ("request", RequestCode.SEND_BATCH_MESSAGE):
        return check_batch
    bodies = REQUEST_BODIES if kind == "request" else RESPONSE_BODIES
    return lambda data: check_json_body(bodies[code], data)


@every_scenario
def test_bodies_round_trip_through_objects_or_were_refused(scenario: str) -> None:
    refused = refused_requests(scenario)
    for line, command, request in exchanges(scenario):
        if not command.body or (command.is_response and request is None):
            continue
        kind, code = ("request", command.code) if request is None else ("response", request.code)
        try:
            if kind == "request" and code == RequestCode.REGISTER_BROKER:
                check_register_body(command)
            elif kind == "response" or (code not in PLAIN_BODIES and command.ext.get("m") != "false"):
                check_of(kind, RequestCode(code))(command.body)
        except RemoteProtocolError:
            assert (line["connection"], command.opaque, line["direction"]) in refused


@pytest.mark.parametrize("scenario", ["odd", "odd-binary"])
def test_heartbeat_that_is_not_json_is_refused(scenario: str) -> None:
    bodies = [one.command.body for one in exchanges(scenario) if one.command.code == RequestCode.HEART_BEAT]
    assert b"not json" in bodies
    with pytest.raises(RemoteProtocolError):
        HeartbeatData.decode(b"not json")


@pytest.mark.parametrize("scenario", ["acl", "mqadmin-acl"])
def test_signatures_verify_where_they_did_in_rocketmq(scenario: str) -> None:
    secrets = {"golden-client": "golden-secret", "golden-admin": "golden-admin-secret"}
    right = 0
    for line, command, request in exchanges(scenario):
        # A name server does not check signatures.
        if request is None or line["to"] == "nameserver" or request.ext.get(ACCESS_KEY) not in secrets:
            continue
        holds = is_signed(secrets[request.ext[ACCESS_KEY]], request.ext, request.body)
        refused = "Check signature failed" in (command.remark or "")
        assert holds != refused or SIGNATURE not in request.ext
        right += holds
    assert right > 5


@pytest.mark.parametrize("scenario", golden.scenarios())
def test_header_converts_between_json_and_binary_without_loss(scenario: str) -> None:
    for frame in whole_frames(scenario)[:200]:
        command = decode_frame(frame)
        had = command.serialize_type
        command.serialize_type = SerializeType.ROCKETMQ if had == SerializeType.JSON else SerializeType.JSON
        again = decode_frame(command.encode())
        again.serialize_type = command.serialize_type = had
        if not command.ext_fields:  # the binary form does not distinguish an empty map from none
            command.ext_fields = again.ext_fields = None
        assert again == command


def test_ha_stream_consists_of_log_frames() -> None:
    head, *lines = golden.lines(golden.GOLDEN / "wire" / "ha.jsonl")
    reports: dict[int, ReportDecoder] = {}
    decoders: dict[int, HaFrameDecoder] = {}
    log = bytearray()
    reported = []
    for line in lines:
        data = golden.raw_bytes(line)
        if data and line["direction"] == ">":
            reported.append(reports.setdefault(line["connection"], ReportDecoder()).feed(data))
        elif data:
            for frame in decoders.setdefault(line["connection"], HaFrameDecoder()).feed(data):
                if frame.data:
                    assert frame.physical_offset == len(log)
                    log += frame.data
    assert len(log) == head["masterLogBytes"] == reported[-1]
    messages = decode_records(bytes(log))
    assert [message.physical_offset for message in messages] == [
        sum(message.size_bytes for message in messages[:number]) for number in range(len(messages))
    ]
    assert decode_record(log).physical_offset == 0
