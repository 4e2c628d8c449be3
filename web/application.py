"""The composition root: the rooms of a console, and what each is given."""

import asyncio
import itertools
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, field
from sanic import Sanic

from headrace.client.settings import ClientConfig
from headrace.model.address_list import parse_networks
from web.accounts.audit_log import AuditLog
from web.accounts.database import open_database
from web.accounts.first_login import FirstLogin
from web.accounts.login_limits import LoginLimits
from web.accounts.passwords import Passwords
from web.accounts.sessions import Sessions
from web.accounts.tokens import Tokens
from web.accounts.users import Users
from web.alerts.alert_book import AlertBook
from web.alerts.alert_service import AlertService
from web.cluster.cluster import Cluster
from web.config import ConsoleConfig, OwnServer
from web.health.health_routes import HealthRoutes
from web.history.history_file import open_history
from web.history.history_routes import HistoryRoutes
from web.history.recorder import Recorder
from web.metrics.metrics_routes import MetricsRoutes
from web.pages.acl.acl_pages import AclPages
from web.pages.alerts.alert_pages import AlertPages
from web.pages.alerts.alert_rows import firing_rows
from web.pages.api import ApiPages
from web.pages.chart_page import ChartPages
from web.pages.cluster.cluster_pages import ClusterPages
from web.pages.dead_letters.dead_letter_pages import DeadLetterPages
from web.pages.dead_letters.handled_book import HandledBook
from web.pages.dead_letters.handled_letters import HandledLetters
from web.pages.dead_letters.resend_book import ResendBook
from web.pages.dead_letters.resends import Resends
from web.pages.disks import Disks
from web.pages.exports.export_pages import ExportPages
from web.pages.groups.group_pages import GroupPages
from web.pages.messages.message_pages import MessagePages
from web.pages.overview import OverviewPages
from web.pages.producers import ProducerPages
from web.pages.search import SearchPages
from web.pages.tail import TailPages
from web.pages.tokens import TokenPages
from web.pages.topics import TopicPages
from web.pages.traces.trace_pages import TracePages
from web.pages.users import UserPages
from web.pages.waiting.delay_pages import DelayPages
from web.pages.waiting.transaction_pages import TransactionPages
from web.routes import Query, Route
from web.sampling.log_ends import LogEnds
from web.sampling.own_appliance import OwnAppliance
from web.sampling.past_members import PastMembers
from web.sampling.sampler import Sampler
from web.serving.connections import HEAD_S, IDLE_S
from web.serving.dispatcher import EXPORT_DEADLINE_S, Dispatcher
from web.serving.html import Templates
from web.serving.login_pages import LoginPages
from web.serving.page_renderer import PageRenderer
from web.serving.security import Proxies
from web.serving.static_files import static_files
from web.serving.visitors import Visitors

MAX_REQUEST_BYTES: Final = 8 << 20  # limit: a message of 4 MiB, percent-encoded in a form
_numbers = itertools.count()  # names of applications must be unique in a process

logger = logging.getLogger(__name__)


class ConsoleSettings(Struct, frozen=True):
    """What a console is given."""

    config: ConsoleConfig
    cluster: ClientConfig
    """How it connects to the cluster."""
    folder: Path
    """Its own files: accounts, history."""
    control_socket: Path | None = None
    """The control socket of the appliance to which it belongs; None for a console alone."""
    own_servers: Mapping[str, OwnServer] = field(default_factory=dict)
    """The appliance's brokers and name server, by address."""


class Console(Struct, frozen=True):
    """A console that is ready to serve."""

    app: Sanic[Any, Any]
    cluster: Cluster
    tasks: Sequence[Callable[[], Awaitable[None]]] = field(default_factory=tuple)
    """What runs beside the server, such as sampling for the history, until it is cancelled."""
    finish_changes: Callable[[float], Awaitable[None]] = field(default=lambda _: asyncio.sleep(0))
    """Waits at most so many seconds for changes in progress."""
    routes: Sequence[Route] = ()
    """All that are declared."""
    close: Callable[[], None] = lambda: None


def make_console(settings: ConsoleSettings) -> Console:
    """Builds a console on the running loop; it does no I/O with the cluster yet. Raises DatabaseUnusable."""
    asyncio.get_running_loop()
    config, base_path = settings.config, settings.config.console_base_path
    cluster = Cluster(settings.cluster)
    database = open_database(settings.folder)
    users = Users(database, Passwords(), _now_ms)
    audit = AuditLog(database, _now_ms)
    for name in users.remove_others(config.console_oidc_issuer):
        audit.add("", "", "user.delete", name, "done: the user's OpenID provider is no longer configured")
    first_login = FirstLogin(settings.folder, config.url, _now_ms)
    if users.has_no_local_user():
        logger.warning(
            "console has no local user, open the link to create the first administrator link=%s path=%s",
            first_login.make(),
            first_login.path,
        )

    own = OwnAppliance(settings.control_socket)
    sampler = Sampler(cluster.admin, own)
    history = open_history(settings.folder / "history.db")
    recorder = Recorder(sampler, history)
    sessions, tokens = Sessions(database, _now_ms), Tokens(database, _now_ms)
    limits = LoginLimits(_now_ms)
    alert_book = AlertBook(settings.folder / "alerts.db")
    alerts = AlertService(alert_book, cluster.admin, history.read, config.may_send_alerts_to)
    log_ends, past_members = LogEnds(), PastMembers()
    letter_file = settings.folder / "dead-letters.db"
    resend_book, handled_book = ResendBook(letter_file), HandledBook(letter_file)
    handled = HandledLetters(cluster, handled_book)
    resends = Resends(cluster, resend_book, handled, audit.add)
    recorder.followers += [alerts.follow, log_ends.follow, past_members.follow, handled.follow]

    declared: list[Route] = [
        *HealthRoutes(sampler, own, settings.cluster.name_server_list).routes(),
        *MetricsRoutes(sampler, settings.folder / "metrics-token").routes(),
        *HistoryRoutes(history).routes(),
        *OverviewPages(
            cluster,
            own,
            sampler,
            Disks(cluster, history.read, time.time),
            lambda: firing_rows(alerts),
            handled.count_in,
        ).routes(),
        *ChartPages(history.read, time.time).routes(),
        *ClusterPages(cluster, settings.own_servers, log_ends).routes(),
        *AclPages(cluster).routes(),
        *TopicPages(cluster, sampler).routes(),
        *TailPages(cluster).routes(),
        *GroupPages(cluster, sampler, past_members).routes(),
        *SearchPages(cluster, sampler).routes(),
        *ProducerPages(cluster).routes(),
        *MessagePages(cluster, sampler).routes(),
        *DeadLetterPages(cluster, sampler, resend_book, handled, resends).routes(),
        *DelayPages(cluster).routes(),
        *TransactionPages(cluster, resend_book).routes(),
        *TracePages(cluster).routes(),
        *ExportPages(cluster, own, audit).routes(),
        *AlertPages(alerts).routes(),
        *UserPages(users, sessions, audit, limits).routes(),
        *TokenPages(tokens).routes(),
    ]
    declared += ApiPages(declared, base_path).routes()

    menu = [route for route in declared if isinstance(route, Query) and route.menu]
    proxies = Proxies(parse_networks("consoleTrustedProxies", config.console_trusted_proxies))
    visitors = Visitors(sessions, proxies, base_path, tokens)
    cluster_name = ";".join(settings.cluster.name_server_list)
    pages = PageRenderer(Templates(base_path), visitors, menu, base_path, cluster_name, lambda: alerts.firing_count)
    closes = [resend_book.close, handled_book.close, alert_book.close, history.close, database.close]
    login = LoginPages(pages, users, audit, limits, first_login, config.oidc_name)
    routes: list[Route] = [*static_files(), *login.routes(), *declared]
    if config.console_oidc_issuer:
        # OpenSSL is loaded only where a provider is configured.
        from web.accounts.oidc.attempts import Attempts  # noqa: PLC0415
        from web.accounts.oidc.provider import OidcProvider  # noqa: PLC0415
        from web.serving.oidc_pages import OidcPages  # noqa: PLC0415

        provider = OidcProvider(config)
        closes.insert(0, provider.close)
        routes += OidcPages(login, visitors, provider, users, audit, limits, Attempts(_now_ms)).routes()
    app = _make_app()
    dispatcher = Dispatcher(app, routes, pages, audit, cluster.forget)

    def close() -> None:
        for close_one in closes:
            close_one()

    return Console(app, cluster, [recorder.run, alerts.run, resends.run], dispatcher.finish_changes, routes, close)


def _make_app() -> Sanic[Any, Any]:
    app: Sanic[Any, Any] = Sanic(f"console-{next(_numbers)}", configure_logging=False)
    app.config.REQUEST_MAX_SIZE = MAX_REQUEST_BYTES
    app.config.GRACEFUL_SHUTDOWN_TIMEOUT = 3.0
    app.config.KEEP_ALIVE_TIMEOUT = IDLE_S
    app.config.REQUEST_TIMEOUT = HEAD_S
    app.config.RESPONSE_TIMEOUT = EXPORT_DEADLINE_S + 10
    app.config.TOUCHUP = False
    app.config.MOTD = False
    return app


def _now_ms() -> int:
    return int(time.time() * 1000)
