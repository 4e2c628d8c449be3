"""Dispatcher: declared routes as handlers of Sanic.

For each request: who sends it, whether the route is open to that user, the page's deadline, then the page as HTML, CSV, JSON Lines or JSON.
A change is also checked for its origin and written to the audit log, whatever its outcome. Errors of a page become an error page with the
cause and what to do, or its JSON; others are logged and answered without details. A form that was refused is shown again on its page, with
what the user entered.
"""

import asyncio
import logging
import re
import sqlite3
import typing
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qs, unquote

import msgspec
from msgspec import structs
from sanic import HTTPResponse, Request, Sanic
from sanic.exceptions import SanicException
from sanic.response import redirect

from headrace.errors import (
    BrokerError,
    BrokerNotFound,
    ConfigError,
    FlowControl,
    HeadraceError,
    LocalProtocolError,
    MessageIllegal,
    MessageInvalid,
    RouteNotFound,
    ServiceNotAvailable,
    SubscriptionGroupNotExist,
    SubscriptionNotExist,
    SystemBusy,
    TopicNotExist,
)
from headrace.protocol.response_code import ResponseCode
from web.accounts.audit_log import STARTED, AuditLog
from web.cluster.refusals import REFUSAL_ADVICE, is_refusal
from web.errors import Invalid, NotFound, NotLoggedIn, QueryFailed
from web.paths import API, path_of
from web.routes import Change, Outcome, Query, Raw, Route, View, Visit
from web.serving.form_filler import PAGE_FIELD, Entered
from web.serving.forms import read_fields, read_form
from web.serving.page_renderer import PageRenderer
from web.serving.security import HEADERS, HTTPS_HEADERS, check_text
from web.serving.visitors import CSRF_FIELD, CSRF_HEADER, require
from web.tables.export import EXPORT_TYPES, to_csv, to_json_lines
from web.tables.table import TableView

DEADLINE_S: Final = 8.0
"""For all that a page reads."""
CHANGE_DEADLINE_S: Final = 30.0
EXPORT_DEADLINE_S: Final = 120.0
_MISSING: Final = 404
_PART: Final = re.compile(r"<(\w+):\w+>")
_SERVER_ERRORS: Final = 500
_NOT_FOUND: Final = (
    RouteNotFound, BrokerNotFound, TopicNotExist, SubscriptionNotExist, SubscriptionGroupNotExist
)  # fmt: skip
_INVALID: Final = (ConfigError, MessageInvalid, MessageIllegal, LocalProtocolError)
_BUSY: Final = (SystemBusy, FlowControl, ServiceNotAvailable)

Handler = Callable[..., Coroutine[Any, Any, HTTPResponse | None]]

logger = logging.getLogger(__name__)


class Dispatcher:
    """Serves routes on a Sanic application."""

    def __init__(
        self,
        app: Sanic[Any, Any],
        routes: Sequence[Route],
        pages: PageRenderer,
        audit: AuditLog,
        on_change: Callable[[], None],
    ) -> None:
        """`on_change` is called after each change: answers that were read before are old."""
        self._pages = pages
        self._visitors = pages.visitors
        self._base_path = pages.base_path
        self._audit = audit
        self._on_change = on_change
        self._count = 0
        self._running: set[asyncio.Task[Outcome]] = set()
        # Those without parts first, as `/alerts/new` before `/alerts/<rule:str>`.
        queries = sorted((route for route in routes if isinstance(route, Query)), key=lambda one: "<" in one.path)
        self._shapes = [(query, re.compile(_PART.sub(r"(?P<\1>[^/]+)", query.path))) for query in queries]
        paths = {query.path for query in queries}
        for route in routes:
            match route:
                case Query():
                    self._add(app, route.path, "GET", self._page(route))
                    self._add(app, API + route.path, "GET", self._json(route))
                case Change():
                    self._add(app, route.path, "POST", self._form(route))
                    if route.path not in paths:
                        self._add(app, route.path, "GET", self._page_of(route, paths))
                    self._add(app, API + route.path, "POST", self._json_change(route))
                case Raw():
                    for method in route.methods:
                        self._add(app, route.path, method, self._raw(route))
                        if route.summary and not route.path.startswith(API):
                            self._add(app, API + route.path, method, self._raw(route))
        app.error_handler.add(Exception, self._failed)
        app.on_request(_check_headers)
        app.on_response(self._add_headers)  # type: ignore[no-untyped-call]

    async def finish_changes(self, grace_s: float) -> None:
        """Waits for changes in progress; after `grace_s` cancels them. The audit log has their outcome then."""
        if not self._running:
            return
        _, late = await asyncio.wait(self._running, timeout=grace_s)
        for running in late:
            running.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    def _add(self, app: Sanic[Any, Any], path: str, method: str, handler: Handler) -> None:
        self._count += 1
        app.add_route(handler, self._base_path + path, methods=[method], name=f"route{self._count}", unquote=True)

    # ---- queries

    def _page(self, query: Query) -> Handler:
        async def answer(request: Request, **path: str) -> HTTPResponse:
            visit = self._visitors.visit(request, path)
            require(visit, query.access)
            export = visit.arguments.get("format", "")
            if export:
                return await _export(query, visit, export)
            try:
                view, tables = await _read(query, visit)
            except Exception as error:
                again = await self._search_again(query, request, visit, error)
                if again is None:
                    raise
                return again
            return self._pages.page(request, visit, view, tables, query.menu or query.section)

        return answer

    async def _search_again(
        self, query: Query, request: Request, visit: Visit, error: Exception
    ) -> HTTPResponse | None:
        """The page without its arguments, and its form with them; None if the fault is not in them."""
        failure, status = _explain(error)
        if status >= _SERVER_ERRORS or not visit.arguments:
            return None
        entered = Entered("get", request.path, {name: [value] for name, value in visit.arguments.items()})
        empty = structs.replace(visit, arguments={})
        address = request.path.removeprefix(self._base_path)
        return await self._with_form(query, request, empty, address, entered, failure, status)

    async def _with_form(
        self,
        query: Query,
        request: Request,
        visit: Visit,
        address: str,
        entered: Entered,
        failure: QueryFailed,
        status: int,
    ) -> HTTPResponse | None:
        """The page with a form that was refused; None if the page cannot be read or does not have the form."""
        try:
            require(visit, query.access)
            view, tables = await _read(query, visit)
        except Exception as again:  # noqa: BLE001  (the user must see the first cause)
            logger.info("form error page not rendered path=%r error=%r", address, str(again))
            return None
        here = query.menu or query.section
        return self._pages.page_with_form(request, visit, view, tables, here, address, entered, failure, status)

    def _json(self, query: Query) -> Handler:
        async def answer(request: Request, **path: str) -> HTTPResponse:
            visit = self._visitors.visit(request, path)
            require(visit, query.access)
            export = visit.arguments.get("format", "")
            if export not in {"", "json"}:
                return await _export(query, visit, export)
            view, tables = await _read(query, visit)
            rows = {
                name: {"rows": table.rows, "total": table.total, "page": table.page, "size": table.selection.size}
                for name, table in tables.items()
            }
            return _json({**view.data, **rows, "problems": [str(problem) for problem in view.problems]})

        return answer

    # ---- changes

    def _form(self, change: Change[Any]) -> Handler:
        async def answer(request: Request, **path: str) -> HTTPResponse:
            visit = self._visitors.visit(request, path)
            if not visit.user:
                require(visit, change.access)  # before anything that a stranger sent is decoded
            sent = read_fields(request)
            csrf = sent.get(CSRF_FIELD, [""])[0]
            self._permit(change, request, visit, csrf)
            try:
                outcome = await self._change(change, visit, sent)
            except Exception as error:  # noqa: BLE001  (shown, and logged there)
                return await self._refused(change, request, visit, sent, error)
            self._pages.notice(request, outcome)
            return redirect(self._pages.templates.url(outcome.location), status=303)

        return answer

    def _page_of(self, change: Change[Any], pages: Collection[str]) -> Handler:
        """Redirects to the page above the address of a form: browsers have that address after an error, and open it again."""
        page = change.path
        while page and page not in pages:
            page = page.rpartition("/")[0]
        depth = change.path.count("/") - page.count("/")

        async def answer(request: Request, **_path: str) -> HTTPResponse:
            return redirect(request.path.rsplit("/", depth)[0] or "/", status=303)

        return answer

    def _json_change(self, change: Change[Any]) -> Handler:
        async def answer(request: Request, **path: str) -> HTTPResponse:
            visit = self._visitors.visit(request, path)
            given = request.headers.get(CSRF_HEADER) or ""
            self._permit(change, request, visit, given)
            outcome = await self._change(change, visit, request.body or b"{}")
            body = {
                "message": outcome.text,
                "before": outcome.before,
                "after": outcome.after,
            }
            return _json({**body, "location": outcome.location})

        return answer

    async def _refused(
        self, change: Change[Any], request: Request, visit: Visit, sent: dict[str, list[str]], error: Exception
    ) -> HTTPResponse:
        """The page of the form, with what was entered; if that page cannot be shown, an error page with it."""
        failure, status = self._explain_and_log(request, error)
        secrets = change.secrets(sent)
        entered = Entered("post", request.path, sent, secrets)
        address = sent.get(PAGE_FIELD, [""])[0]
        path, _, arguments = address.partition("?")
        for query, shape in self._shapes:
            found = shape.fullmatch(path)
            if found is not None:
                parts = {name: unquote(part) for name, part in found.groupdict().items()}
                given = {name: values[0] for name, values in parse_qs(arguments).items() if name != "format"}
                there = structs.replace(visit, path=parts, arguments=given)
                answer = await self._with_form(query, request, there, address, entered, failure, status)
                if answer is not None:
                    return answer
                break
        shown = typing.get_type_hints(change.form).keys() - secrets
        texts = {name: "\n".join(values) for name, values in sent.items() if name in shown and any(values)}
        view, here = _error_page(failure, status, texts), self._section(request)
        return self._pages.page(request, visit, view, here=here, status=status)

    def _section(self, request: Request) -> str:
        """The entry of the navigation to which an address that cannot be shown belongs, or the page above it; empty if there is none."""
        path = request.path.removeprefix(self._base_path)
        while path:
            for query, shape in self._shapes:
                if shape.fullmatch(path):
                    return query.menu or query.section
            path = path.rpartition("/")[0]
        return ""

    def _permit(self, change: Change[Any], request: Request, visit: Visit, csrf: str) -> None:
        """Raises NotLoggedIn, Refused unless the user may make the change, and a page of the session or a program sent it."""
        try:
            require(visit, change.access)
            if not visit.token:  # a browser sends no token of its own accord
                self._visitors.check_csrf(request, csrf)
        except QueryFailed as error:
            self._add_refused(change, visit, error)
            raise

    def _add_refused(self, change: Change[Any], visit: Visit, error: QueryFailed) -> None:
        if visit.user:
            subject = " ".join(visit.path.values())
            self._audit.add_refused(visit.actor, visit.address, change.action, subject, str(error))

    async def _change(self, change: Change[Any], visit: Visit, sent: dict[str, list[str]] | bytes) -> Outcome:
        """Carries out a change that is permitted. What cannot be written to the audit log before it begins is not done."""
        try:
            form = read_form(change.form, sent)
        except QueryFailed as error:
            self._add_refused(change, visit, error)
            raise
        subject = change.subject(visit, form) if change.subject is not None else " ".join(visit.path.values())
        entry = self._audit.add(visit.actor, visit.address, change.action, subject, STARTED)
        running = asyncio.create_task(self._carry_out(change, visit, form, entry))
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        running.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(running)  # a browser that disconnects does not stop it halfway

    async def _carry_out(self, change: Change[Any], visit: Visit, form: Any, entry: int) -> Outcome:
        try:
            async with asyncio.timeout(CHANGE_DEADLINE_S):
                outcome = await change.run(visit, form)
        except asyncio.CancelledError:
            self._audit.finish(entry, "failed: the console was stopped")
            raise
        except Exception as error:
            failure = _explain(error)[0]
            self._audit.finish(entry, f"failed: {failure}", failure.before, failure.after)
            raise
        finally:
            # Even if it failed: brokers may have carried out a part.
            self._on_change()
        self._audit.finish(entry, "done", outcome.before, outcome.after)
        return outcome

    # ---- everything else

    def _raw(self, route: Raw) -> Handler:
        async def answer(request: Request, **path: str) -> HTTPResponse | None:
            visit = self._visitors.visit(request, path)
            require(visit, route.access)
            return await route.run(request, visit)

        return answer

    def _explain_and_log(self, request: Request, error: Exception) -> tuple[QueryFailed, int]:
        failure, status = _explain(error)
        if status == _SERVER_ERRORS:
            logger.error("request failed path=%r", request.path, exc_info=error)
        return failure, status

    def _failed(self, request: Request, error: Exception) -> HTTPResponse:
        failure, status = self._explain_and_log(request, error)
        if request.path.startswith(f"{self._base_path}{API}/"):
            return _json({"error": str(failure), "advice": failure.advice}, status)
        if isinstance(error, NotLoggedIn):
            here = request.path.removeprefix(self._base_path)
            here = f"{here}?{request.query_string}" if request.query_string else here
            login = self._pages.templates.url(path_of("login", next=here if request.method == "GET" else ""))
            if "hx-request" in request.headers:
                return HTTPResponse(status=200, headers={"HX-Redirect": login})
            return redirect(login, status=303)
        view = _error_page(failure, status)
        try:
            visit = self._visitors.visit(request, {})
        except sqlite3.Error as again:  # the page must name the first cause
            logger.error("session unreadable request_path=%r error=%r", request.path, str(again))
            visit = self._visitors.stranger(request)
        return self._pages.page(request, visit, view, here=self._section(request), status=status)

    def _add_headers(self, request: Request, response: HTTPResponse) -> None:
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        if self._visitors.is_https(request):
            for name, value in HTTPS_HEADERS.items():
                response.headers.setdefault(name, value)


def _error_page(failure: QueryFailed, status: int, entered: Mapping[str, str] | None = None) -> View:
    """`entered`: the fields of a form that was refused."""
    title = "Not found" if status == _MISSING else "Request failed"
    return View(title, "error.html", {"failure": failure, "entered": entered or {}})


async def _read(query: Query, visit: Visit) -> tuple[View, dict[str, TableView[Any]]]:
    """A view, and its tables with the rows that are shown; the first table's arguments have no prefix."""
    async with asyncio.timeout(DEADLINE_S):
        view = await query.run(visit)
        selected = [table.select(visit.arguments, _prefix(view, table.name)) for table in view.tables]
        tables = await asyncio.gather(*(one.fill() for one in selected))
    in_rows = (getattr(row, "problem", "") for one in tables for row in one.rows)
    if is_refusal((*map(str, view.problems), *in_rows)):
        view = structs.replace(view, problems=[*view.problems, REFUSAL_ADVICE])
    return view, {one.table.name: one for one in tables}


async def _export(query: Query, visit: Visit, kind: str) -> HTTPResponse:
    if kind not in EXPORT_TYPES:
        raise Invalid("format={kind} is not one of {choices}", kind=repr(kind[:80]), choices=", ".join(EXPORT_TYPES))
    async with asyncio.timeout(EXPORT_DEADLINE_S):
        view = await query.run(visit)
        if not view.tables:
            raise Invalid("this page has no table")
        name = visit.arguments.get("table", view.tables[0].name)
        table = next((table for table in view.tables if table.name == name), None)
        if table is None:
            raise NotFound("this page has no table {name}", name=repr(name[:80]))
        rows = await table.select(visit.arguments, _prefix(view, name)).all_rows()
    lines = to_csv(table.columns, rows) if kind == "csv" else to_json_lines(rows)
    headers = {"Content-Disposition": f'attachment; filename="{name}.{kind}"', "Cache-Control": "no-store"}
    return HTTPResponse(b"".join(lines), content_type=EXPORT_TYPES[kind], headers=headers)


def _prefix(view: View, name: str) -> str:
    return "" if view.tables[0].name == name else f"{name}."


def _json(body: Any, status: int = 200) -> HTTPResponse:
    headers = {"Cache-Control": "no-store"}
    return HTTPResponse(msgspec.json.encode(body), status=status, content_type="application/json", headers=headers)


def _check_headers(request: Request) -> None:
    check_text(request.headers)


def _explain(error: Exception) -> tuple[QueryFailed, int]:
    """The cause and what to do, for the user, and the HTTP status."""
    match error:
        case QueryFailed():
            if is_refusal([str(error)]):
                error.advice_key = REFUSAL_ADVICE
            return error, error.status
        case SanicException():
            return QueryFailed(str(error)), error.status_code
        case HeadraceError() if is_refusal([str(error)]):
            return QueryFailed(str(error), REFUSAL_ADVICE), 502
        case BrokerError() if error.code == ResponseCode.CONSUMER_NOT_ONLINE:
            return QueryFailed(str(error)), 404
        case HeadraceError() if isinstance(error, _NOT_FOUND):
            return QueryFailed(str(error)), 404
        case HeadraceError() if isinstance(error, _INVALID):
            return QueryFailed(str(error)), 400
        case HeadraceError() if isinstance(error, _BUSY):
            return QueryFailed(str(error), "Try again later."), 503
        case HeadraceError() if error.retryable:
            return QueryFailed(
                str(error), "Check that the broker or name server is running and reachable, then reload the page."
            ), 502
        case HeadraceError():
            return QueryFailed(str(error)), 502
        case sqlite3.Error():
            return QueryFailed(
                "the console's database failed: {error}", "Check the disk of the data folder.", error=error
            ), 503
        case TimeoutError():
            advice = "Check whether brokers are overloaded or unreachable, then reload the page."
            return QueryFailed("the cluster did not answer in time", advice), 504
        case _:
            return QueryFailed(
                "the console failed to handle the request", "The cause is in the console's log."
            ), _SERVER_ERRORS
