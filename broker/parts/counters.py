"""The broker's counters: what its parts have counted, added to the page that outlives it."""

from broker.parts.requests import Requests
from broker.parts.waiting import Waiting
from headrace.remoting.server import RemotingServer
from ipc.counter_page import CounterPage


class Counters:
    """`add` carries over what was counted since the last time."""

    def __init__(self, page: CounterPage, requests: Requests, waiting: Waiting, server: RemotingServer) -> None:
        self._page = page
        self._requests = requests
        self._waiting = waiting
        self._server = server
        # How many there are now, unlike all else on the page, did not outlive a predecessor that was killed.
        self._counted = {name: page.read().get(name, 0) for name in ("held_pulls", "connections")}

    def add(self) -> None:
        """Once a tick."""
        requests = self._requests
        now = {
            "messages_in": requests.sends.messages_in + requests.send_path.messages_in,
            "bytes_in": requests.sends.bytes_in + requests.send_path.bytes_in,
            "messages_out": requests.pulls.messages_out + requests.pull_path.messages_out,
            "bytes_out": requests.pulls.bytes_out + requests.pull_path.bytes_out,
            "held_pulls": len(self._waiting.held),
            "connections": len(self._server.connections),
        }
        for name, value in now.items():
            self._page.add(name, value - self._counted.get(name, 0))
        self._counted = now
