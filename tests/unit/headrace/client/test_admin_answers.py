"""Answers to admin requests: large ones are decoded beside the loop."""

import threading
from typing import Self

import pytest

from headrace import Admin
from headrace.client.admin import calls
from headrace.protocol.bodies import ConsumerOffsetSerializeWrapper
from headrace.protocol.request_code import RequestCode
from support.sdk import run
from support.sdk_cluster import Cluster


@pytest.mark.parametrize("is_large", [False, True])
def test_only_large_answers_are_decoded_in_a_thread(is_large: bool) -> None:
    body = b'{"offsetTable":{"T@G":{0:5}}}'
    decoded_in: list[threading.Thread] = []

    class Recorded(ConsumerOffsetSerializeWrapper):
        @classmethod
        def decode(cls, data: bytes | str, *, untrusted: bool = False) -> Self:
            decoded_in.append(threading.current_thread())
            return super().decode(data, untrusted=untrusted)

    async def main() -> None:
        async with Cluster("a") as cluster, Admin(cluster.name_server) as admin:
            broker = cluster.brokers["a"]
            broker.body = body + b" " * calls.LARGE_BYTES * is_large
            answer = await admin._body(Recorded, broker.address, RequestCode.GET_ALL_CONSUMER_OFFSET)
            assert answer.offset_table == {"T@G": {0: 5}}

    run(main())
    assert [thread is threading.main_thread() for thread in decoded_in] == [not is_large]
