"""Accounts, and requests that they make, for comparing what brokers with access control allow.

`ACCOUNTS` is a plain_acl.yml; `rows()` are requests signed by each of its accounts, by strangers and by forgers. A refusal is known by its remark.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from headrace.model.subscription import SubscriptionData
from headrace.protocol.acl_signature import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE, sign
from headrace.protocol.batch import encode_entry
from headrace.protocol.bodies import ConsumerData, HeartbeatData
from headrace.protocol.headers.offset import UpdateConsumerOffsetRequestHeader
from headrace.protocol.remoting_command import RemotingCommand
from headrace.protocol.request_code import RequestCode as Code
from support.plain_client import PlainClient

SECRET: Final = "secret-of-all"
REFUSAL: Final = "org.apache.rocketmq.acl.common.AclException: "

_PERMISSIONS: Final[dict[str, dict[str, Any]]] = {
    "denied1": {},
    "publisher": {"defaultTopicPerm": "PUB"},
    "subscriber": {"defaultTopicPerm": "SUB", "defaultGroupPerm": "SUB"},
    "anything": {"defaultTopicPerm": "PUB|SUB", "defaultGroupPerm": "SUB|PUB"},
    "misspelt": {"defaultTopicPerm": "pub|sub", "defaultGroupPerm": "ANY"},
    "groups-only": {"defaultGroupPerm": "SUB"},
    "entries": {
        "topicPerms": ["Open=PUB|SUB", "Closed=DENY", "In=PUB", " Out = SUB "],
        "groupPerms": ["open-group=SUB", "closed-group=DENY", "in=PUB"],
    },
    "exceptions": {
        "defaultTopicPerm": "PUB|SUB",
        "defaultGroupPerm": "SUB",
        "topicPerms": ["Closed=DENY", "In=PUB", "Out=SUB", "%RETRY%open-group=DENY"],
        "groupPerms": ["closed-group=DENY", "in=PUB"],
    },
    "administrator": {"admin": True},
    "limited-admin": {"admin": True, "defaultGroupPerm": "SUB", "topicPerms": ["Open=PUB"]},
    "white-here": {"whiteRemoteAddress": "127.0.0.*"},
    "white-elsewhere": {"whiteRemoteAddress": "10.*.*.*", "defaultTopicPerm": "PUB"},
}
ACCOUNTS: Final = json.dumps(
    {"accounts": [{"accessKey": name, "secretKey": SECRET, **fields} for name, fields in _PERMISSIONS.items()]}
)
"""JSON is YAML."""

PAIRS: Final = (
    ("Open", "open-group"),
    ("Closed", "closed-group"),
    ("In", "in"),
    ("Out", "open-group"),
    ("Other", "other"),
)
"""Topics and groups of the requests."""


@dataclass(frozen=True)
class Row:
    """A request of an account, and how it is signed."""

    account: str | None
    request: str
    topic: str
    group: str
    secret: str = SECRET

    def __str__(self) -> str:
        forged = " forged" if self.secret != SECRET else ""
        return f"{self.account}{forged}: {self.request} {self.topic} {self.group}"

    def ask(self, client: PlainClient) -> tuple[int, str | None]:
        """Makes the request. The code of the answer, and the remark if access control has refused it."""
        code, ext, body = REQUESTS[self.request](self.topic, self.group)
        signed = dict(ext)
        if self.account is not None:
            signed |= {ACCESS_KEY: self.account, SECURITY_TOKEN: "token"}
            signed[SIGNATURE] = sign(self.secret, signed, body)
        answer: RemotingCommand = client.ask(code, signed, body)
        remark = answer.remark or ""
        return answer.code, remark if remark.startswith(REFUSAL) else None


def rows() -> Iterator[Row]:
    """All requests of all accounts, in an order in which none prevents a later one."""
    for request in REQUESTS:
        for topic, group in PAIRS:
            for account in _PERMISSIONS:
                yield Row(account, request, topic, group)
            yield Row(None, request, topic, group)
            yield Row("stranger", request, topic, group)
            yield Row("anything", request, topic, group, "wrong-secret")
            yield Row("administrator", request, topic, group, "wrong-secret")


_Request = tuple[int, Mapping[str, str], bytes]


# Without empty fields: in a binary header Apache's broker reads them as `null`, which it then finds wrongly signed.
def _send(topic: str, _group: str) -> _Request:
    ext = {
        "producerGroup": "producers", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": "1", "queueId": "0", "sysFlag": "0",
        "bornTimestamp": "1700000000000", "flag": "0", "properties": "WAIT\x01true", "reconsumeTimes": "0", "unitMode": "false", "batch": "false",
    }  # fmt: skip
    return Code.SEND_MESSAGE, ext, b"body"


def _send_v2(topic: str, group: str) -> _Request:
    ext = {
        "a": group, "b": topic, "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "1700000000000", "h": "0", "i": "WAIT\x01true", "j": "0",
        "k": "false", "m": "false",
    }  # fmt: skip
    return Code.SEND_MESSAGE_V2, ext, b"body"


def _send_batch(topic: str, group: str) -> _Request:
    _, ext, _ = _send_v2(topic, group)
    return Code.SEND_BATCH_MESSAGE, {**ext, "m": "true"}, encode_entry(b"one", 0, b"") + encode_entry(b"two", 0, b"")


def _pull(topic: str, group: str) -> _Request:
    ext = {
        "consumerGroup": group, "topic": topic, "queueId": "0", "queueOffset": "0", "maxMsgNums": "1", "sysFlag": "4", "commitOffset": "0",
        "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
    }  # fmt: skip
    return Code.PULL_MESSAGE, ext, b""


def _heartbeat(topic: str, group: str) -> _Request:
    subscriptions = [SubscriptionData.build(topic), SubscriptionData.build(f"%RETRY%{group}")]
    consumer = ConsumerData(group, subscription_data_set=subscriptions)
    return Code.HEART_BEAT, {}, HeartbeatData(f"client-{group}", [], [consumer]).encode()


def _update_offset(topic: str, group: str) -> _Request:
    return Code.UPDATE_CONSUMER_OFFSET, UpdateConsumerOffsetRequestHeader(group, topic, 0, 1).to_ext(), b""


def _plain(code: Code, *fields: str) -> Callable[[str, str], _Request]:
    """A request whose fields are texts with {topic} and {group} in them, as `name=text`."""

    def make(topic: str, group: str) -> _Request:
        pairs = (field.split("=", 1) for field in fields)
        return code, {name: text.format(topic=topic, group=group) for name, text in pairs}, b""

    return make


_QUEUE: Final = ("topic={topic}", "queueId=0")
_CREATE: Final = (
    "topic={topic}", "defaultTopic=TBW102", "readQueueNums=1", "writeQueueNums=1", "perm=6", "topicFilterType=SINGLE_TAG",
    "topicSysFlag=0", "order=false",
)  # fmt: skip

REQUESTS: Final[Mapping[str, Callable[[str, str], _Request]]] = {
    "create topic": _plain(Code.UPDATE_AND_CREATE_TOPIC, *_CREATE),
    "put group": lambda _topic, group: (
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, json.dumps({"groupName": group}).encode(),
    ),
    "change configuration": lambda _topic, _group: (Code.UPDATE_BROKER_CONFIG, {}, b""),
    "send": _send,
    "send v2": _send_v2,
    "send batch": _send_batch,
    "send to retry topic": lambda _topic, group: _send(f"%RETRY%{group}", group),
    "send v2 to retry topic": lambda _topic, group: _send_v2(f"%RETRY%{group}", group),
    "send trace": lambda _topic, group: _send_v2("RMQ_SYS_TRACE_TOPIC", group),
    "send back": _plain(
        Code.CONSUMER_SEND_MSG_BACK, "offset=0", "group={group}", "delayLevel=0", "originTopic={topic}", "originMsgId=id", "unitMode=false"
    ),
    "pull": _pull,
    "pull retry topic": lambda _topic, group: _pull(f"%RETRY%{group}", group),
    "pull trace": lambda _topic, group: _pull("RMQ_SYS_TRACE_TOPIC", group),
    "query": _plain(Code.QUERY_MESSAGE, "topic={topic}", "key=k", "maxNum=1", "beginTimestamp=0", "endTimestamp=1"),
    "heartbeat": _heartbeat,
    "consumer list": _plain(Code.GET_CONSUMER_LIST_BY_GROUP, "consumerGroup={group}"),
    "update offset": _update_offset,
    "query offset": _plain(Code.QUERY_CONSUMER_OFFSET, "consumerGroup={group}", *_QUEUE),
    "maximum offset": _plain(Code.GET_MAX_OFFSET, *_QUEUE),
    "lock": lambda topic, group: (
        Code.LOCK_BATCH_MQ, {},
        json.dumps({"clientId": "c", "consumerGroup": group, "mqSet": [{"brokerName": "b", "queueId": 0, "topic": topic}]}).encode(),
    ),
    "unregister consumer": _plain(Code.UNREGISTER_CLIENT, "clientID=client-{group}", "consumerGroup={group}"),
    "unregister producer": _plain(Code.UNREGISTER_CLIENT, "clientID=client-{group}", "producerGroup={group}"),
    "topic statistics": _plain(Code.GET_TOPIC_STATS_INFO, "topic={topic}"),
    "all topics": _plain(Code.GET_ALL_TOPIC_CONFIG),
    "delete group": _plain(Code.DELETE_SUBSCRIPTIONGROUP, "groupName={group}"),
    "delete topic": _plain(Code.DELETE_TOPIC_IN_BROKER, "topic={topic}"),
}  # fmt: skip
