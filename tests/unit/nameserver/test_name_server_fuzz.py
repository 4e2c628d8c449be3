"""Arbitrary input: the name server answers or disconnects, raises no internal error, and keeps serving others."""

import random
import zlib
from pathlib import Path

import pytest

from headrace.protocol import fastjson
from headrace.protocol.remoting_command import RemotingCommand, create_request
from headrace.remoting import RemotingClient
from nameserver.config import NameServerConfig
from nameserver.daemon import NameServer
from support.loops import LOOPS, run_on

KEYS = (
    "brokerName", "brokerAddr", "clusterName", "haServerAddr", "brokerId", "compressed", "bodyCrc32", "topic", "cluster",
    "acceptStandardJsonOnly", "namespace", "key", "value",
)  # fmt: skip
VALUES = (
    "",
    "a",
    "b",
    "0",
    "1",
    "-1",
    "9223372036854775808",
    "true",
    "ORDER_TOPIC_CONFIG",
    "\u0000",
    "\ud83d\ude00",
    "x" * 5000,
    "broker/ä",
)
BODY = fastjson.dumps(
    {
        "filterServerList": ["f:1"],
        "topicConfigSerializeWrapper": {
            "dataVersion": {"counter": 1, "timestamp": 1},
            "topicConfigTable": {
                "a": {"topicName": "a", "readQueueNums": 4, "writeQueueNums": 4, "perm": 6, "topicSysFlag": 1}
            },
        },
    }
).encode()


class Fuzz:
    def __init__(self, seed: int) -> None:
        self.chosen = random.Random(seed)

    def body(self) -> bytes:
        chosen = self.chosen
        body = bytearray(
            chosen.choice(
                (
                    b"",
                    BODY,
                    BODY,
                    b"{}",
                    b"orderMessageEnable=true\n",
                    b"a",
                    b"[1]",
                    b'{"counter":1}',
                    zlib.compress(BODY),
                )
            )
        )
        for _ in range(chosen.choice((0, 0, 1, 3))):
            if body:
                body[chosen.randrange(len(body))] = chosen.randrange(256)
        return bytes(body)

    def request(self) -> RemotingCommand:
        chosen = self.chosen
        code = chosen.choice(
            (
                100,
                101,
                102,
                103,
                103,
                103,
                104,
                105,
                106,
                205,
                206,
                216,
                219,
                224,
                304,
                311,
                312,
                313,
                318,
                319,
                322,
                327,
                4711,
                -1,
            )
        )
        ext = {key: chosen.choice(VALUES) for key in KEYS if chosen.random() < 0.8}
        if chosen.random() < 0.7:
            ext |= {"brokerId": chosen.choice("012"), "bodyCrc32": "0"}
        request = create_request(code, ext if chosen.random() < 0.95 else None, self.body())
        request.version = chosen.choice((0, 36, 37, 400, 401, 409, 32767))
        return request


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("loop", sorted(LOOPS))
def test_no_request_causes_an_internal_error(
    loop: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The file is written and renamed each time; only the expensive sync is skipped.
    monkeypatch.setattr("os.fsync", lambda _: None)

    async def main() -> None:
        name_server = NameServer(NameServerConfig(), tmp_path)
        address = f"127.0.0.1:{await name_server.listen('127.0.0.1', 0)}"
        client, fuzz = RemotingClient(), Fuzz(seed)
        for _ in range(150):
            answer = await client.request(address, fuzz.request(), 5000)
            assert answer.code in {0, 1, 3, 16, 17, 22}
        assert name_server.server.handler_errors == 0
        assert name_server.server.bad_frames == 0
        await client.close()
        await name_server.stop()
        # The file on disk can be read again.
        again = NameServer(NameServerConfig(), tmp_path)
        await again.stop()

    run_on(loop, main())
