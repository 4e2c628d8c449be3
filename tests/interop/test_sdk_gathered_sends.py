"""Very many sends of one program at once: none is refused, at ours and at Apache's, since the producer has only so many under way."""

import asyncio

import pytest

from headrace import Message, Producer
from support.sdk import run
from support.servers import Server


@pytest.mark.slow
def test_gathered_sends_beyond_all_queues_of_the_broker_succeed(server: Server) -> None:
    async def main() -> None:
        async with Producer("gathered", server.name_server) as producer:
            sends = (producer.send(Message("GatheredSends", bytes(1024))) for _ in range(20_000))
            results = await asyncio.gather(*sends)
            assert all(result.ok for result in results)
            assert len({result.message_id for result in results}) == 20_000

    run(main())
