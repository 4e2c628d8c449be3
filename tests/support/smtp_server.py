"""A mail server that keeps what it is sent: plain, with STARTTLS, or with TLS from the first byte."""

import asyncio
import base64
import ssl
import threading
from dataclasses import dataclass
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Self


@dataclass(frozen=True)
class Mail:
    """One mail that was accepted."""

    sender: str
    recipients: tuple[str, ...]
    message: EmailMessage
    is_encrypted: bool
    login: tuple[str, str] | None
    """User and password, if the client logged in."""


class SmtpServer:
    """Listens on `port` of 127.0.0.1, in a thread of its own. It logs in whoever has the password `PASSWORD`."""

    PASSWORD = "the password"

    def __init__(
        self, security: str, context: ssl.SSLContext | None = None, *, refused: frozenset[str] = frozenset()
    ) -> None:
        """`security`: as of the channel. It has no mailbox for `refused` addresses."""
        self.mails: list[Mail] = []
        self._security, self._context, self._refused = security, context, refused
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(30)
        self.port: int = self._server.sockets[0].getsockname()[1]

    async def _listen(self) -> asyncio.Server:
        context = self._context if self._security == "tls" else None
        return await asyncio.start_server(self._converse, "127.0.0.1", 0, ssl=context)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # a client that refuses the certificate
        finally:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_encrypted, login, sender = self._security == "tls", None, ""
        recipients: list[str] = []

        def say(*lines: str) -> None:
            writer.writelines(f"{line}\r\n".encode() for line in lines)

        say("220 mail.test ESMTP")
        while True:
            line = (await reader.readuntil(b"\r\n")).decode().strip()
            verb, *rest = line.split(maxsplit=2)
            match [verb.lower(), *rest]:  # smtplib of Python 3.13 writes other words in small letters
                case ["ehlo", _]:
                    offers_tls = self._security == "starttls" and not is_encrypted
                    say("250-mail.test", "250-STARTTLS" if offers_tls else "250-8BITMIME", "250 AUTH PLAIN")
                case ["starttls"]:
                    assert self._context is not None
                    say("220 go ahead")
                    await writer.drain()
                    await writer.start_tls(self._context)
                    is_encrypted = True
                case ["auth", "PLAIN", secret]:
                    _, user, password = base64.b64decode(secret).decode().split("\0")
                    login = (user, password) if password == self.PASSWORD else None
                    say("535 wrong password" if login is None else "235 logged in")
                case ["mail", argument, *_]:
                    sender, recipients = argument.partition(":")[2].strip("<>"), []
                    say("250 OK")
                case ["rcpt", argument, *_]:
                    address = argument.partition(":")[2].strip("<>")
                    recipients += [] if address in self._refused else [address]
                    say("550 no such mailbox" if address in self._refused else "250 OK")
                case ["data"]:
                    say("354 send it")
                    content = await reader.readuntil(b"\r\n.\r\n")
                    message = message_from_bytes(content[:-5], EmailMessage, policy=policy.default)
                    self.mails.append(Mail(sender, tuple(recipients), message, is_encrypted, login))
                    say("250 OK")
                case ["quit"]:
                    say("221 goodbye")
                    await writer.drain()
                    return
                case _:
                    say("500 unknown command")

    def close(self) -> None:
        """Stops it."""

        async def stop() -> None:
            self._server.close()
            conversations = asyncio.all_tasks() - {asyncio.current_task()}
            for conversation in conversations:
                conversation.cancel()
            await asyncio.gather(*conversations, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(stop(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
