"""The composition root: the rooms of a console, and what each is given."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from sanic import Sanic

from headrace.client.settings import ClientConfig
from web.cluster.cluster import Cluster
from web.config import ConsoleConfig
from web.pages.topics import TopicPages
from web.routes import Route
from web.serving.dispatcher import Dispatcher
from web.serving.html import Templates
from web.serving.static_files import static_files

_numbers = itertools.count()  # names of applications must be unique in a process

MAX_REQUEST_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """What a console is given."""

    config: ConsoleConfig
    cluster: ClientConfig
    """How it connects to the cluster."""
    folder: Path
    """Its own files: accounts, history."""
    control_socket: Path | None = None
    """The control socket of the appliance to which it belongs; None for a console alone."""


@dataclass(frozen=True, slots=True)
class Console:
    """A console that is ready to serve."""

    app: Sanic[Any, Any]
    cluster: Cluster
    tasks: Sequence[Callable[[], Awaitable[None]]] = field(default_factory=tuple)
    """What runs beside the server, such as sampling for the history, until it is cancelled."""


def make_console(settings: ConsoleSettings) -> Console:
    """Builds a console on the running loop; it does no I/O with the cluster yet."""
    asyncio.get_running_loop()
    cluster = Cluster(settings.cluster)
    app: Sanic[Any, Any] = Sanic(f"console-{next(_numbers)}", configure_logging=False, log_config=None)
    app.config.REQUEST_MAX_SIZE = MAX_REQUEST_BYTES
    app.config.GRACEFUL_SHUTDOWN_TIMEOUT = 3.0
    app.config.TOUCHUP = False
    app.config.MOTD = False
    base_path = settings.config.console_base_path
    routes: list[Route] = [*static_files(), *TopicPages(cluster).routes()]
    Dispatcher(app, Templates(base_path), routes, base_path, ";".join(settings.cluster.name_server_list))
    return Console(app, cluster)
