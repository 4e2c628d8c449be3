"""ClientTransport: the client's connections, with TLS if configured; requests are signed and marked as the settings require."""

import asyncio
import os
import ssl
from typing import Final

from headrace.client.cluster.send_pipeline import SendPipeline
from headrace.client.settings import ClientConfig, Credentials, Tls
from headrace.model.tls_settings import Identity
from headrace.protocol.acl_signature import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE, sign
from headrace.protocol.remoting_command import RemotingCommand, SerializeType
from headrace.remoting.client import RemotingClient
from headrace.remoting.endpoint import OnClose
from headrace.remoting.handlers import HandlerTable
from headrace.remoting.tls_context import client_context

REQUEST_TYPE: Final = "ReqT"
STREAM_REQUEST: Final = "0"
_WRITABLE_PAUSE_S: Final = 0.001


class RequestStamp:
    """Completes a request before it is encoded: header encoding, marker of lite pull consumers, signature (remoting spec 6.1, 6.2)."""

    def __init__(self, config: ClientConfig, *, stream: bool = False) -> None:
        self._credentials: Credentials | None = config.credentials
        self._is_binary = config.binary_headers
        self._is_stream = stream
        self.is_needed = bool(self._credentials or self._is_binary or stream)

    def __call__(self, _address: str, command: RemotingCommand) -> None:
        """Completes the request in place."""
        if self._is_binary:
            command.serialize_type = SerializeType.ROCKETMQ
        if command.ext_fields is None and (self._is_stream or self._credentials):
            command.ext_fields = {}
        ext = command.ext_fields
        if self._is_stream and ext is not None:
            ext[REQUEST_TYPE] = STREAM_REQUEST
        if self._credentials is not None and ext is not None:
            ext.pop(SIGNATURE, None)
            ext[ACCESS_KEY] = self._credentials.access_key
            if self._credentials.security_token:
                ext[SECURITY_TOKEN] = self._credentials.security_token
            # order: the signature covers all fields set above.
            ext[SIGNATURE] = sign(self._credentials.secret_key, ext, command.body)


def _context(tls: bool | Tls | ssl.SSLContext) -> ssl.SSLContext | None:
    """Returns the context of all connections; None for plain text. Raises ConfigError for files that cannot be used."""
    if isinstance(tls, ssl.SSLContext):
        return tls
    if not tls:
        return None
    given = Tls() if tls is True else tls
    certificate, key, ca = (
        "" if path is None else os.fspath(path) for path in (given.certificate, given.key, given.ca)
    )
    identity = Identity("", certificate, key, given.key_password or "", ca)
    return client_context(identity, verify=given.verify, check_host_name=given.check_host_name)


class ClientTransport:
    """One connection for each address, plain or TLS. `request`, `is_connected` and `close` are those of `RemotingClient`."""

    def __init__(
        self, config: ClientConfig, stamp: RequestStamp, handlers: HandlerTable, on_close: OnClose | None = None
    ) -> None:
        self._client = client = RemotingClient(
            handlers,
            before_request=stamp if stamp.is_needed else None,
            on_close=on_close,
            ssl=_context(config.tls),
            make_hot_path=SendPipeline,
        )
        self.request = client.request
        self.is_connected = client.is_connected
        self.close = client.close

    def pipeline(self, address: str) -> SendPipeline | None:
        """Returns the pipeline of the open connection to an address, if there is one."""
        connection = self._client.open_connection(address)
        pipeline = None if connection is None else connection.hot_path
        return pipeline if isinstance(pipeline, SendPipeline) else None

    async def oneway(self, address: str, command: RemotingCommand) -> None:
        """As RemotingClient's, but waits while the peer does not read: nothing else slows down one-way senders."""
        connection = await self._client.connect(address)
        while connection.is_held and not connection.is_closed:  # noqa: ASYNC110 - a connection has no event for it
            await asyncio.sleep(_WRITABLE_PAUSE_S)
        await self._client.oneway(address, command)
