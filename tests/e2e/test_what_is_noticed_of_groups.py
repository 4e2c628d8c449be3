"""`headrace status` says what was noticed of consumer groups, also while the broker is dead; the log says it once, and once more when it has ended."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headrace.model.subscription import SubscriptionData
from headrace.protocol.bodies import ConsumerData, HeartbeatData
from headrace.protocol.frame import FrameDecoder
from headrace.protocol.remoting_command import create_request
from headrace.protocol.request_code import RequestCode
from support.appliance import Appliance
from support.servers import wait_until

pytestmark = pytest.mark.slow

DEADLINE_S = 60


class Member:
    """A consumer of which the broker sees heartbeats."""

    def __init__(self, appliance: Appliance, client_id: str, group: str, *topics: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", appliance.ports[1]), DEADLINE_S)
        self.heartbeat = HeartbeatData(
            client_id,
            [],
            [ConsumerData(group, subscription_data_set=[SubscriptionData.build(topic) for topic in topics])],
        ).encode()

    def beat(self) -> None:
        """Gives a sign of life, and waits until it is taken."""
        self.socket.sendall(create_request(RequestCode.HEART_BEAT, None, body=self.heartbeat).encode())
        decoder = FrameDecoder()
        while not any(command.is_response for command in decoder.feed(self.socket.recv(65_536))):
            pass

    def close(self) -> None:
        self.socket.close()


@pytest.fixture
def appliance(tmp_path: Path) -> Iterator[Appliance]:
    with Appliance(tmp_path / "data") as appliance:
        yield appliance


def test_a_group_whose_members_disagree_and_share_an_id_is_noticed(appliance: Appliance) -> None:
    def noticed() -> dict[str, Any]:
        return {notice["kind"]: notice for notice in appliance.status()["noticed"]}

    def beat_and_look() -> dict[str, Any]:
        for member in members:
            member.beat()
        return noticed()

    def logged(words: str) -> int:
        return (appliance.data / "logs" / "headrace.log").read_text().count(words)

    assert noticed() == {}
    with (
        closing(Member(appliance, "one", "Disagreeing", "T")) as one,
        closing(Member(appliance, "two", "Disagreeing", "T", "U")) as two,
        closing(Member(appliance, "same", "Sharing", "T")) as same,
        closing(Member(appliance, "same", "Sharing", "T")) as again,
    ):
        members = [one, two, same, again]
        wait_until(lambda: len(beat_and_look()) == 2, DEADLINE_S, "both groups are noticed")
        disagreeing, sharing = noticed()["members disagree"], noticed()["client id shared"]
        assert (disagreeing["group"], len(disagreeing["members"])) == ("Disagreeing", 2)
        assert (sharing["group"], sharing["about"], len(sharing["members"])) == ("Sharing", "same", 2)
        text = appliance.run("status", "--data", str(appliance.data)).stdout
        assert "\nnoticed\n  group Disagreeing: " in text
        assert disagreeing["advice"] in text
        wait_until(lambda: logged("noticed group=Disagreeing") == 1, DEADLINE_S, "it is logged")
        again.close()
        members = [one, two, same]
        wait_until(lambda: "client id shared" not in beat_and_look(), DEADLINE_S, "the id is one client's again")
        wait_until(lambda: logged("no longer so group=Sharing") == 1, DEADLINE_S, "that it has ended is logged")
        assert (logged("noticed group=Disagreeing"), logged("noticed group=Sharing")) == (1, 1)

        before = noticed()
        broker = appliance.pid_of("broker")
        os.kill(broker, signal.SIGSTOP)
        assert noticed() == before
        os.kill(broker, signal.SIGKILL)
    appliance.wait_restarted("broker", broker)
    wait_until(lambda: noticed() == {}, DEADLINE_S, "a broker that knows of no group takes the notices back")
