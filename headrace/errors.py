"""Every error of the SDK, in one tree.

    HeadraceError                     catch this for anything that the SDK raises on purpose
    ├── ConfigError                   a setting that cannot be used (also ValueError)
    ├── MessageInvalid                a message that no broker would take (also ValueError)
    ├── StateError                    not started, started twice, already closed (also RuntimeError)
    ├── ProtocolError                 (also ValueError)
    │   ├── LocalProtocolError        we were asked to send what the protocol cannot carry
    │   └── RemoteProtocolError       what came from outside is not what the protocol says
    │       └── BadFrame              … and it broke the framing: the connection is of no more use
    ├── RemotingError                 a request did not get its answer (also OSError)
    │   ├── ConnectError              no connection to the address (also ConnectionError)
    │   ├── SendRequestError          the connection broke (also ConnectionError)
    │   ├── RequestTimeout            no answer in time (also TimeoutError)
    │   │   └── ReplyTimeout          the peer of a request-reply did not answer in time
    │   └── TooManyRequests           no room for another request, or no time left to send it
    ├── NoNameServer                  no address of a name server is known
    ├── RouteNotFound                 no name server knows the topic
    ├── BrokerNotFound                no address of the broker is known
    ├── SendFailed                    a send was given up after all its attempts
    └── BrokerError                   the broker answered with an error code
        ├── SystemBusy, ServiceNotAvailable, PermissionDenied, TopicNotExist, MessageIllegal
        ├── SubscriptionParseFailed, SubscriptionNotExist, SubscriptionNotLatest, SubscriptionGroupNotExist
        └── FlowControl

`retryable` says whether trying again, at another broker or later, may help. It does not say that nothing has happened:
after a time-out or a broken connection a message may be stored, and a second try stores it twice.

Whatever bytes a peer sends, or a file holds, decoding them can only raise `RemoteProtocolError`.
"""

# ruff: noqa: N818 (an error is named after what has happened)

from collections.abc import Sequence
from typing import Any, ClassVar

# Response codes for which RocketMQ's producers try another broker (SYSTEM_ERROR, SERVICE_NOT_AVAILABLE, NO_PERMISSION, TOPIC_NOT_EXIST,
# NO_BUYER_ID, NOT_IN_CURRENT_UNIT).
_RETRYABLE_CODES = frozenset({1, 14, 16, 17, 204, 205})


class HeadraceError(Exception):
    """The root of the tree. `retryable`: whether trying again may help."""

    retryable: bool = False


class ConfigError(HeadraceError, ValueError):
    """A setting that cannot be used; `field` names it."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class MessageInvalid(HeadraceError, ValueError):
    """A message that no broker would take: no topic, an illegal name, too large."""


class StateError(HeadraceError, RuntimeError):
    """The call does not fit the object's state; `state` names that."""

    def __init__(self, message: str, state: str | None = None) -> None:
        super().__init__(message)
        self.state = state


class ProtocolError(HeadraceError, ValueError):
    """Bytes or objects do not fit the protocol."""


class LocalProtocolError(ProtocolError):
    """We were asked to send what the protocol cannot carry, such as a topic of 200 characters."""


class RemoteProtocolError(ProtocolError):
    """What came from outside (a peer, a file) is not what the protocol says. The message says what is wrong."""


class BadFrame(RemoteProtocolError):
    """The bytes of a connection are not frames: there is no telling where the next one begins, so it must be closed.

    `frames` are the commands that were whole before the bad one in the same call.
    """

    def __init__(self, message: str, frames: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.frames = tuple(frames)


class RemotingError(HeadraceError, OSError):
    """A request did not get its answer; `address` is the peer's, `host:port`, where known."""

    def __init__(self, message: str, address: str | None = None) -> None:
        super().__init__(message)
        self.address = address


class ConnectError(RemotingError, ConnectionError):
    """No connection to the address."""

    retryable = True


class SendRequestError(RemotingError, ConnectionError):
    """The connection broke before the answer came. The request may have been carried out."""

    retryable = True


class RequestTimeout(RemotingError, TimeoutError):
    """No answer within `timeout` seconds. The request may have been carried out."""

    retryable = True

    def __init__(self, message: str, address: str | None = None, timeout: float | None = None) -> None:
        super().__init__(message, address)
        self.timeout = timeout


class ReplyTimeout(RequestTimeout):
    """The message of a request-reply was sent, but nobody answered it within `timeout` seconds."""

    retryable = False


class TooManyRequests(RemotingError):
    """No room for another request in flight, or the time given was used up before it could be sent."""


class NoNameServer(HeadraceError):
    """No address of a name server is known."""


class RouteNotFound(HeadraceError):
    """No name server knows the topic `topic`."""

    def __init__(self, message: str, topic: str | None = None) -> None:
        super().__init__(message)
        self.topic = topic


class BrokerNotFound(HeadraceError):
    """No address of the broker `broker_name` is known."""

    def __init__(self, message: str, broker_name: str | None = None) -> None:
        super().__init__(message)
        self.broker_name = broker_name


class SendFailed(HeadraceError):
    """A send was given up: `attempts` tries at `brokers`; `code` of the last answer, `__cause__` the last error."""

    def __init__(self, message: str, code: int = -1, attempts: int = 0, brokers: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.attempts = attempts
        self.brokers = tuple(brokers)


class BrokerError(HeadraceError):
    """The broker answered with an error: `code`, its `remark`, and `broker_address` where known.

    `BrokerError.of(code, …)` makes the subclass that belongs to the code.
    """

    CODE: ClassVar[int | None] = None
    _by_code: ClassVar[dict[int, type["BrokerError"]]] = {}

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if cls.CODE is not None:
            BrokerError._by_code[cls.CODE] = cls

    def __init__(self, code: int, remark: str | None = None, broker_address: str | None = None) -> None:
        where = f" from {broker_address}" if broker_address else ""
        super().__init__(f"code {int(code)}{where}: {remark or 'no remark'}")
        self.code = code
        self.remark = remark
        self.broker_address = broker_address
        self.retryable = int(code) in _RETRYABLE_CODES

    @classmethod
    def of(cls, code: int, remark: str | None = None, broker_address: str | None = None) -> "BrokerError":
        """The error for a response code: the subclass that stands for it, or a plain BrokerError."""
        return cls._by_code.get(int(code), BrokerError)(code, remark, broker_address)


class SystemBusy(BrokerError):
    """The broker has too much to do (code 2)."""

    CODE = 2


class MessageIllegal(BrokerError):
    """The broker refused the message's size or kind (code 13)."""

    CODE = 13


class ServiceNotAvailable(BrokerError):
    """The broker takes no messages: a slave, stopping, or its disk is full (code 14)."""

    CODE = 14


class PermissionDenied(BrokerError):
    """The broker, the topic or the group does not permit it (code 16)."""

    CODE = 16


class TopicNotExist(BrokerError):
    """The topic does not exist and may not be created (code 17)."""

    CODE = 17


class SubscriptionParseFailed(BrokerError):
    """The filter expression cannot be used (code 23)."""

    CODE = 23


class SubscriptionNotExist(BrokerError):
    """The broker knows of no such subscription (code 24)."""

    CODE = 24


class SubscriptionNotLatest(BrokerError):
    """The broker knows an older subscription than the request (code 25)."""

    CODE = 25


class SubscriptionGroupNotExist(BrokerError):
    """The group does not exist and may not be created (code 26)."""

    CODE = 26


class FlowControl(BrokerError):
    """The broker asks to slow down (code 215)."""

    CODE = 215
