"""ServerTls: the certificate of a server's listeners, loaded at the first TLS hello and again when its files change.

Until a client uses TLS nothing is read and no memory is used. A changed file that is invalid is logged, and the previous certificate stays in use;
connections that exist keep theirs.
"""

import asyncio
import logging
import os
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from headrace.errors import ConfigError
from headrace.model.tls_settings import DISABLED, ENFORCING, TlsSettings
from headrace.remoting.client_usage import NOBODY, ClientUsage
from headrace.remoting.tls_context import server_context
from headrace.remoting.tls_layer import TlsLayer, TlsUser
from headrace.remoting.turns import Turns

logger = logging.getLogger(__name__)

CHECK_INTERVAL_S: Final = 1.0  # limit: how often files are checked for changes; RocketMQ checks twice a second

_Fingerprint = tuple[tuple[int, int, int] | None, ...]


class ServerTls:
    """One per server. `make_certificate(path)` writes a certificate and its key to a new file, if no certificate is configured."""

    def __init__(self, settings: TlsSettings, make_certificate: Callable[[Path], None] | None = None) -> None:
        self.settings = settings
        self._make_certificate = make_certificate
        self._context: ssl.SSLContext | None = None
        self._loading: asyncio.Future[ssl.SSLContext] | None = None
        self._seen: _Fingerprint = ()
        self._looked_at = 0.0
        self.is_disabled = settings.mode == DISABLED
        """Whether TLS hellos are refused."""
        self.is_required = settings.mode == ENFORCING
        """Whether plain text is refused."""

    def accept(
        self,
        loop: asyncio.AbstractEventLoop,
        transport: asyncio.Transport,
        user: TlsUser,
        data: bytes,
        turns: Turns | None = None,
        usage: ClientUsage = NOBODY,
    ) -> asyncio.Transport:
        """Starts TLS on a connection. `data`: all bytes read so far, the beginning of a TLS hello.

        The handshake takes turns of `usage`, the client's address, in `turns`.
        Returns the transport that the protocol `user` uses from now on. A handshake that fails at once calls `tls_failed` before this returns.
        """
        layer = TlsLayer(loop, transport, user, turns, usage)
        layer.begin(self.context(loop), data)
        return layer

    def context(self, loop: asyncio.AbstractEventLoop) -> "ssl.SSLContext | asyncio.Future[ssl.SSLContext]":
        """Returns the context for a new connection; a future while it is loaded for the first time, which fails with ConfigError."""
        now = time.monotonic()
        is_due = now - self._looked_at >= CHECK_INTERVAL_S
        if self._context is not None:
            if is_due:
                self._looked_at = now
                self._reload()
            return self._context
        if self._loading is None or (self._loading.done() and is_due):
            self._looked_at = now
            # Creating a certificate takes a third of a second, so it does not run in the loop.
            self._loading = loop.run_in_executor(None, self._load)
        return self._loading

    def _load(self) -> ssl.SSLContext:
        settings = self.settings
        if settings.is_self_made:
            if not settings.self_made or self._make_certificate is None:
                raise ConfigError(
                    f"no certificate is configured ({settings.server.name_of('certificate')}); set it, or create one with: headrace tls init DIR"
                )
            path = Path(settings.self_made)
            if not path.exists():
                try:
                    self._make_certificate(path)
                except OSError as error:
                    raise ConfigError(f"cannot write the self-signed certificate {path}: {error.strerror}") from error
                logger.info("certificate created path=%s", path)
            server = replace(settings.server, certificate=str(path), key=str(path))
            settings = self.settings = replace(settings, server=server)
        # order: before the files are read, so that later changes are noticed.
        self._seen = self._look()
        self._context = server_context(settings)
        return self._context

    def _reload(self) -> None:
        seen = self._look()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._context = server_context(self.settings)
        except ConfigError as error:
            logger.error("certificate not reloaded, the previous one stays in use error=%r", str(error))
        else:
            logger.info("certificate reloaded path=%s", self.settings.server.certificate)

    def _look(self) -> _Fingerprint:
        return tuple(map(_fingerprint, self.settings.server.files))


def _fingerprint(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size
