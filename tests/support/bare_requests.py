"""Requests without a client library, over a blocking socket."""

import socket

from headrace.protocol.frame import FrameDecoder
from headrace.protocol.remoting_command import RemotingCommand, create_request
from headrace.protocol.request_code import RequestCode


def ask(port: int, code: RequestCode, body: bytes = b"") -> RemotingCommand:
    """Sends one request on a new connection and returns the response."""
    decoder = FrameDecoder()
    with socket.create_connection(("127.0.0.1", port), 60) as connection:
        connection.sendall(create_request(code, body=body).encode())
        while True:
            data = connection.recv(65_536)
            assert data, "disconnected without an answer"
            for answer in decoder.feed(data):
                return answer
