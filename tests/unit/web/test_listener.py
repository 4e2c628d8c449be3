import socket

import pytest

from web.errors import PortTaken
from web.listener import bind


def test_port_in_use_is_named_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(PortTaken, match=rf"port {port} of 127\.0\.0\.1 is in use; .*--console-port"):
            bind("127.0.0.1", port)


def test_free_port_is_bound_and_listens() -> None:
    with bind("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        pass
