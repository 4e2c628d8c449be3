"""A slow, interrupted or absent network between a client and a server: a proxy controlled by the test."""

import asyncio
import socket
import struct
from typing import Self

from support.servers import free_port

_PIECE = 64 * 1024


class BadNetwork:
    """Forwards connections to a port of this machine. `delay_s`: latency of each piece; `piece`: its maximum size."""

    def __init__(self, port: int) -> None:
        self.delay_s = 0.0
        self.piece = _PIECE
        self.resets = 0
        self._target = port
        # Reserved while it is cut off: no server and no client's connection gets the port.
        self._port = free_port()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def address(self) -> str:
        """HOST:PORT for the client."""
        return f"127.0.0.1:{self._port}"

    async def restore(self) -> None:
        """Listens on its port again."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self._port)

    async def cut(self) -> None:
        """Closes its port: connections break, new ones are refused."""
        assert self._server is not None
        self._server.close()
        self.reset()
        await self._server.wait_closed()

    def reset(self) -> None:
        """Resets all connections."""
        for writer in list(self._writers):
            connected = writer.get_extra_info("socket")
            if connected is not None and not writer.transport.is_closing():
                # Closing with this option set is a reset.
                connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            self.resets += 1

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, far_writer}
        try:
            await asyncio.gather(self._carry(reader, far_writer), self._carry(far_reader, writer))
        finally:
            for one in (writer, far_writer):
                self._writers.discard(one)
                one.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(self.piece):
                if self.delay_s:
                    await asyncio.sleep(self.delay_s)
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        writer.transport.abort()

    async def __aenter__(self) -> Self:
        await self.restore()
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None and self._server.is_serving():
            await self.cut()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
