"""Every error of the SDK, in one tree.

    HeadraceError                     the base of all errors that the SDK raises on purpose
    ├── ConfigError                   an invalid setting (also ValueError)
    ├── MessageInvalid                a message that no broker would accept (also ValueError)
    ├── StateError                    not started, started twice, already closed (also RuntimeError)
    ├── ProtocolError                 (also ValueError)
    │   ├── LocalProtocolError        a value that the protocol cannot carry was to be sent
    │   └── RemoteProtocolError       bytes from a peer or a file violate the protocol
    │       └── BadFrame              … and its framing: the connection cannot be used any more
    │           └── FrameTooLarge     a frame or header is larger than this side accepts
    ├── RemotingError                 a request got no answer (also OSError)
    │   ├── ConnectError              no connection to the address (also ConnectionError)
    │   ├── SendRequestError          the connection broke (also ConnectionError)
    │   ├── RequestTimeout            no answer in time (also TimeoutError)
    │   │   └── ReplyTimeout          no reply of request-reply in time
    │   └── TooManyRequests           no room for another request, or no time left to send it
    ├── NoNameServer                  no address of a name server is known
    ├── RouteNotFound                 no name server knows the topic
    ├── BrokerNotFound                no address of the broker is known
    ├── SendFailed                    all attempts of a send failed
    └── BrokerError                   the broker answered with an error code
        ├── SystemBusy, ServiceNotAvailable, PermissionDenied, TopicNotExist, MessageIllegal
        ├── SubscriptionParseFailed, SubscriptionNotExist, SubscriptionNotLatest, SubscriptionGroupNotExist
        └── FlowControl

`retryable` tells whether another attempt, at another broker or later, may succeed. It does not mean that the first one had no effect: after a timeout
or a broken connection a message may be stored, and a retry stores it twice.

Whatever bytes a peer or a file contains, decoding them raises only `RemoteProtocolError`.
"""

# ruff: noqa: N818 (an error is named after what happened)

from collections.abc import Sequence
from typing import Any, ClassVar

# Response codes for which RocketMQ's producers try another broker (SYSTEM_ERROR, SERVICE_NOT_AVAILABLE, NO_PERMISSION, TOPIC_NOT_EXIST,
# NO_BUYER_ID, NOT_IN_CURRENT_UNIT).
_RETRYABLE_CODES = frozenset({1, 14, 16, 17, 204, 205})


class HeadraceError(Exception):
    """The base of all errors. `retryable`: whether another attempt may succeed."""

    retryable: bool = False


class ConfigError(HeadraceError, ValueError):
    """An invalid setting; `field` names it."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class MessageInvalid(HeadraceError, ValueError):
    """A message that no broker would accept: without a topic, with an invalid name, too large."""


class StateError(HeadraceError, RuntimeError):
    """The call is not possible in the object's state, which `state` names."""

    def __init__(self, message: str, state: str | None = None) -> None:
        super().__init__(message)
        self.state = state


class ProtocolError(HeadraceError, ValueError):
    """Bytes or objects do not fit the protocol."""


class LocalProtocolError(ProtocolError):
    """A value that the protocol cannot carry was to be sent, such as a topic of 200 characters."""


class RemoteProtocolError(ProtocolError):
    """Bytes from a peer or a file violate the protocol. The message describes how."""


class BadFrame(RemoteProtocolError):
    """The bytes of a connection are not frames. The start of the next frame is unknown, so the connection must be closed.

    `frames` are the complete commands before the invalid one in the same call.
    """

    def __init__(self, message: str, frames: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.frames = tuple(frames)


class FrameTooLarge(BadFrame):
    """A frame or its header is larger than this side accepts; `limit` is the name of the option that limits it."""

    def __init__(self, message: str, limit: str) -> None:
        super().__init__(message)
        self.limit = limit


class RemotingError(HeadraceError, OSError):
    """A request got no answer; `address` is the peer's, `host:port`, if known."""

    def __init__(self, message: str, address: str | None = None) -> None:
        super().__init__(message)
        self.address = address


class ConnectError(RemotingError, ConnectionError):
    """No connection to the address."""

    retryable = True


class SendRequestError(RemotingError, ConnectionError):
    """The connection broke before the answer arrived. The request may have been executed."""

    retryable = True


class RequestTimeout(RemotingError, TimeoutError):
    """No answer within `timeout` seconds. The request may have been executed."""

    retryable = True

    def __init__(self, message: str, address: str | None = None, timeout: float | None = None) -> None:
        super().__init__(message, address)
        self.timeout = timeout


class ReplyTimeout(RequestTimeout):
    """The request of request-reply was sent, but no reply arrived within `timeout` seconds."""

    retryable = False


class TooManyRequests(RemotingError):
    """No room for another request in flight, or the timeout expired before it could be sent."""


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
    """All attempts of a send failed: `attempts`, made at `brokers`; `code` of the last answer, `__cause__` is the last error."""

    def __init__(self, message: str, code: int = -1, attempts: int = 0, brokers: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.attempts = attempts
        self.brokers = tuple(brokers)


class BrokerError(HeadraceError):
    """The broker answered with an error: `code`, its `remark`, and `broker_address` if known.

    `BrokerError.of(code, …)` creates the subclass for the code.
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
        """Returns the error for a response code: its subclass if there is one, or a plain BrokerError."""
        return cls._by_code.get(int(code), BrokerError)(code, remark, broker_address)


class SystemBusy(BrokerError):
    """The broker is overloaded (code 2)."""

    CODE = 2


class MessageIllegal(BrokerError):
    """The broker rejects the message's size or type (code 13)."""

    CODE = 13


class ServiceNotAvailable(BrokerError):
    """The broker does not accept messages: it is a slave, is stopping, or its disk is full (code 14)."""

    CODE = 14


class PermissionDenied(BrokerError):
    """The broker, the topic or the group does not permit the request (code 16)."""

    CODE = 16


class TopicNotExist(BrokerError):
    """The topic does not exist and cannot be created (code 17)."""

    CODE = 17


class SubscriptionParseFailed(BrokerError):
    """The filter expression is invalid (code 23)."""

    CODE = 23


class SubscriptionNotExist(BrokerError):
    """The broker has no such subscription (code 24)."""

    CODE = 24


class SubscriptionNotLatest(BrokerError):
    """The broker has an older subscription than the request (code 25)."""

    CODE = 25


class SubscriptionGroupNotExist(BrokerError):
    """The group does not exist and cannot be created (code 26)."""

    CODE = 26


class FlowControl(BrokerError):
    """The broker asks to slow down (code 215)."""

    CODE = 215
