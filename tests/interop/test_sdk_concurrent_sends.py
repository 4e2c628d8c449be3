"""Very many concurrent sends: neither broker refuses one, because the producer limits those in flight."""

import asyncio

import pytest

from headrace import Message, Producer
from support.sdk import run
from support.servers import Server


@pytest.mark.slow
def test_concurrent_sends_beyond_the_brokers_queue_limits_succeed(server: Server) -> None:
    async def main() -> None:
        async with Producer("gathered", server.name_server) as producer:
            sends = (producer.send(Message("GatheredSends", bytes(1024))) for _ in range(20_000))
            results = await asyncio.gather(*sends)
            assert all(result.ok for result in results)
            assert len({result.message_id for result in results}) == 20_000

    run(main())
