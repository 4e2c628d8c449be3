"""The protocol: bytes to objects and back. Plain functions and small state machines, no I/O.

    frame               splits a connection's bytes into commands
    remoting_command    one request or response; json_header and binary_header are its two encodings
    headers, bodies     the contents of a command's ext fields and body
    fastjson            RocketMQ's dialect of JSON, in bodies and in files
    record              a message as the CommitLog stores it and a pull returns it
    batch, compression, ha_frame, acl_signature

Decoding raises only `headrace.errors.RemoteProtocolError`, for any input.
"""

from headrace.protocol.frame import FRAME_MAX_LENGTH, FrameDecoder, decode_frame
from headrace.protocol.language import LanguageCode
from headrace.protocol.remoting_command import RemotingCommand, SerializeType, create_request, response_to
from headrace.protocol.request_code import RequestCode, request_name
from headrace.protocol.response_code import ResponseCode, response_name
from headrace.protocol.version import CURRENT_VERSION, version_text

__all__ = [
    "CURRENT_VERSION",
    "FRAME_MAX_LENGTH",
    "FrameDecoder",
    "LanguageCode",
    "RemotingCommand",
    "RequestCode",
    "ResponseCode",
    "SerializeType",
    "create_request",
    "decode_frame",
    "request_name",
    "response_name",
    "response_to",
    "version_text",
]
