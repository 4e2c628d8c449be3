"""`headrace status` shows findings about consumer groups, even while the broker is dead; the log has each once."""

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headrace.model.subscription import SubscriptionData
from headrace.protocol.bodies import ConsumerData, HeartbeatData
from headrace.protocol.frame import FrameDecoder
from headrace.protocol.headers import PullMessageRequestHeader
from headrace.protocol.remoting_command import RemotingCommand, create_request
from headrace.protocol.request_code import RequestCode
from support.plain_sender import PlainSender
from support.servers import wait_until
from support.watched import WatchedAppliance as Appliance

pytestmark = pytest.mark.slow

DEADLINE_S = 60
LEFT_ALONE_DEADLINE_S = 120  # it takes forty seconds without pulls
BEAT_S = 0.2
"""Between two heartbeats of the members."""


class Member:
    """A consumer that sends heartbeats to the broker."""

    def __init__(self, appliance: Appliance, client_id: str, group: str, *topics: str) -> None:
        self.group = group
        self.socket = socket.create_connection(("127.0.0.1", appliance.ports[1]), DEADLINE_S)
        self.heartbeat = HeartbeatData(
            client_id,
            [],
            [ConsumerData(group, subscription_data_set=[SubscriptionData.build(topic) for topic in topics])],
        ).encode()

    def beat(self) -> None:
        """Sends a heartbeat and waits until it is accepted."""
        self._ask(create_request(RequestCode.HEART_BEAT, None, body=self.heartbeat))

    def pull(self, topic: str, *queue_ids: int) -> None:
        """Pulls the first message of these queues and waits for the answers."""
        for queue_id in queue_ids:
            header = PullMessageRequestHeader(
                consumer_group=self.group, topic=topic, queue_id=queue_id, queue_offset=0, max_msg_nums=1, sys_flag=0, commit_offset=0,
                suspend_timeout_millis=0, sub_version=0,
            )  # fmt: skip
            self._ask(create_request(header.CODE, header.to_ext()))

    def _ask(self, request: RemotingCommand) -> None:
        self.socket.sendall(request.encode())
        decoder = FrameDecoder()
        while not any(command.is_response for command in decoder.feed(self.socket.recv(65_536))):
            pass

    def close(self) -> None:
        self.socket.close()


@pytest.fixture
def appliance(tmp_path: Path) -> Iterator[Appliance]:
    with Appliance(tmp_path / "data") as appliance:
        yield appliance


def test_findings_for_differing_subscriptions_shared_ids_and_unread_queues(appliance: Appliance) -> None:
    def findings() -> dict[str, Any]:
        return {one["kind"]: one for one in appliance.status()["findings"]}

    def beat_and_look() -> dict[str, Any]:
        time.sleep(BEAT_S)
        for member in members:
            member.beat()
        leaving.pull("Left", *queue_ids)
        return findings()

    def logged(words: str) -> int:
        return (appliance.data / "logs" / "headrace.log").read_text().count(words)

    assert findings() == {}
    queue_ids = [0, 1, 3]
    with (
        PlainSender(appliance.ports[1], "Left") as sender,
        closing(Member(appliance, "leaving", "Leaving", "Left")) as leaving,
        closing(Member(appliance, "one", "Disagreeing", "T")) as one,
        closing(Member(appliance, "two", "Disagreeing", "T", "U")) as two,
        closing(Member(appliance, "same", "Sharing", "T")) as same,
        closing(Member(appliance, "same", "Sharing", "T")) as again,
    ):
        sender.send(0)  # creates the topic with four queues
        members = [leaving, one, two, same, again]
        both = {"different subscriptions", "client id shared"}
        wait_until(lambda: beat_and_look().keys() >= both, DEADLINE_S, "both groups have findings")
        disagreeing, sharing = findings()["different subscriptions"], findings()["client id shared"]
        assert (disagreeing["group"], len(disagreeing["members"])) == ("Disagreeing", 2)
        assert (sharing["group"], sharing["about"], len(sharing["members"])) == ("Sharing", "same", 2)
        text = appliance.run("status", "--data", str(appliance.data)).stdout
        assert "\nconsumer group problems\n  group Disagreeing: " in text
        assert disagreeing["advice"] in text
        wait_until(lambda: logged("consumer problem found group=Disagreeing") == 1, DEADLINE_S, "it is logged")
        again.close()
        members = [leaving, one, two, same]
        wait_until(lambda: "client id shared" not in beat_and_look(), DEADLINE_S, "the id is one client's again")
        wait_until(
            lambda: logged("consumer problem resolved group=Sharing") == 1, DEADLINE_S, "that it has ended is logged"
        )
        assert (logged("consumer problem found group=Disagreeing"), logged("consumer problem found group=Sharing")) == (
            1,
            1,
        )

        def left_alone() -> list[int]:
            queues: list[int] = beat_and_look().get("queues without an owner", {}).get("queues", [])
            return queues

        # After a long stall of the machine there may briefly be more.
        wait_until(lambda: left_alone() == [2], LEFT_ALONE_DEADLINE_S, "the unowned queue has a finding")
        words = "  group Leaving: queue 2 of Left had no consumer for 40 s, although 1 member is online\n"
        wait_until(
            lambda: left_alone() and words in appliance.run("status", "--data", str(appliance.data)).stdout,
            DEADLINE_S,
            "the command says so",
        )
        queue_ids.append(2)
        wait_until(lambda: not left_alone(), DEADLINE_S, "somebody has asked for it")

        broker = appliance.pid_of("broker")
        os.kill(broker, signal.SIGSTOP)
        assert findings()["different subscriptions"] == disagreeing
        os.kill(broker, signal.SIGKILL)
    appliance.wait_restarted("broker", broker)
    wait_until(lambda: findings() == {}, DEADLINE_S, "a broker that knows of no group withdraws the findings")
