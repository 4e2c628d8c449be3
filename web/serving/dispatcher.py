"""Dispatcher: declared routes as handlers of Sanic.

For each request: who it is, whether the route is open to that user, the page's deadline, then the page as HTML, CSV, JSON Lines or JSON.
Errors of a page become an error page with the cause and what to do, or its JSON; others are logged and answered without details.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final

import msgspec
from sanic import HTTPResponse, Request, Sanic
from sanic.exceptions import SanicException

from headrace.errors import HeadraceError, RequestTimeout
from web.errors import Invalid, NotFound, QueryFailed
from web.routes import Access, Query, Raw, Route, View, Visit
from web.serving.html import Templates
from web.tables.export import to_csv, to_json_lines
from web.tables.table import TableView
from web.translations import LANGUAGES, choose_language, translator

DEADLINE_S: Final = 8.0
"""For all that a page reads."""
EXPORT_DEADLINE_S: Final = 120.0
API: Final = "/api/v1"
_TYPES: Final = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}

logger = logging.getLogger(__name__)


class Dispatcher:
    """Serves routes on a Sanic application."""

    def __init__(
        self, app: Sanic[Any, Any], templates: Templates, routes: Sequence[Route], base_path: str, cluster_name: str
    ) -> None:
        self._templates = templates
        self._base_path = base_path
        self._cluster_name = cluster_name
        self._menu = [route for route in routes if isinstance(route, Query) and route.menu]
        for number, route in enumerate(routes):
            self._add(app, number, route)
        app.error_handler.add(Exception, self._failed)

    def _add(self, app: Sanic[Any, Any], number: int, route: Route) -> None:
        if isinstance(route, Query):
            app.add_route(
                self._page(route), self._base_path + route.path, methods=["GET"], name=f"page{number}", unquote=True
            )
            app.add_route(
                self._json(route),
                self._base_path + API + route.path,
                methods=["GET"],
                name=f"api{number}",
                unquote=True,
            )
        elif isinstance(route, Raw):
            app.add_route(
                self._raw(route),
                self._base_path + route.path,
                methods=list(route.methods),
                name=f"raw{number}",
                unquote=True,
            )

    # ---- queries

    def _page(self, query: Query) -> Callable[..., Coroutine[Any, Any, HTTPResponse]]:
        async def answer(request: Request, **path: str) -> HTTPResponse:
            visit = self._visit(request, path)
            export = visit.arguments.get("format", "")
            if export:
                return await self._export(query, visit, export)
            async with asyncio.timeout(DEADLINE_S):
                view = await query.run(visit)
                tables = await _tables(view, visit)
            return self._html(request, visit, query, view, tables)

        return answer

    def _json(self, query: Query) -> Callable[..., Coroutine[Any, Any, HTTPResponse]]:
        async def answer(request: Request, **path: str) -> HTTPResponse:
            visit = self._visit(request, path)
            async with asyncio.timeout(DEADLINE_S):
                view = await query.run(visit)
                tables = await _tables(view, visit)
            body = {
                **view.data,
                **{
                    name: {"rows": table.rows, "total": table.total, "page": table.page, "size": table.selection.size}
                    for name, table in tables.items()
                },
                "problems": view.problems,
            }
            return HTTPResponse(msgspec.json.encode(body), content_type="application/json")

        return answer

    async def _export(self, query: Query, visit: Visit, kind: str) -> HTTPResponse:
        if kind not in _TYPES:
            raise Invalid(f"format={kind[:80]!r} is not one of {', '.join(_TYPES)}")
        async with asyncio.timeout(EXPORT_DEADLINE_S):
            view = await query.run(visit)
            if not view.tables:
                raise Invalid("this page has no table")
            name = visit.arguments.get("table", view.tables[0].name)
            views = {table.name: table.select(visit.arguments, _prefix(view, table.name)) for table in view.tables}
            if name not in views:
                raise NotFound(f"this page has no table {name[:80]!r}")
            rows = await views[name].all_rows()
        lines = to_csv(views[name].table.columns, rows) if kind == "csv" else to_json_lines(rows)
        headers = {"Content-Disposition": f'attachment; filename="{name}.{kind}"'}
        return HTTPResponse(b"".join(lines), content_type=_TYPES[kind], headers=headers)

    def _html(
        self,
        request: Request,
        visit: Visit,
        query: Query | None,
        view: View,
        tables: Mapping[str, TableView[Any]],
        status: int = 200,
    ) -> HTTPResponse:
        language = choose_language(request.cookies.get("language"), request.headers.get("accept-language", ""))
        body = self._templates.render(
            view.template,
            t=translator(language),
            language=language,
            languages=LANGUAGES,
            view=view,
            tables=tables,
            visit=visit,
            menu=self._menu,
            here=query.menu or query.section if query is not None else "",
            path=request.path.removeprefix(self._base_path),
            cluster_name=self._cluster_name,
            Access=Access,
            htmx_config=_HTMX_CONFIG,
        )
        return HTTPResponse(body, status=status, content_type="text/html; charset=utf-8")

    # ---- everything else

    def _raw(self, route: Raw) -> Callable[..., Coroutine[Any, Any, HTTPResponse | None]]:
        async def answer(request: Request, **path: str) -> HTTPResponse | None:
            return await route.run(request, self._visit(request, path))

        return answer

    def _visit(self, request: Request, path: Mapping[str, str]) -> Visit:
        arguments = {key: values[0] for key, values in request.args.items()}
        return Visit("", Access.ADMIN, request.ip, path, arguments)

    def _failed(self, request: Request, error: Exception) -> HTTPResponse:
        failure, status = _explain(error)
        if status >= 500 and not isinstance(error, HeadraceError | QueryFailed | TimeoutError):
            logger.error("request failed path=%r", request.path, exc_info=error)
        if request.path.startswith(self._base_path + API):
            body = {"error": str(failure), "advice": failure.advice}
            return HTTPResponse(msgspec.json.encode(body), status=status, content_type="application/json")
        view = View("Request failed", "error.html", {"cause": str(failure), "advice": failure.advice, "status": status})
        return self._html(request, self._visit(request, {}), None, view, {}, status)


async def _tables(view: View, visit: Visit) -> dict[str, TableView[Any]]:
    """The tables of a view with the rows of the pages that are shown; the first table's arguments have no prefix."""
    selected = [table.select(visit.arguments, _prefix(view, table.name)) for table in view.tables]
    return {one.table.name: one for one in await asyncio.gather(*(one.fill() for one in selected))}


def _prefix(view: View, name: str) -> str:
    return "" if view.tables[0].name == name else f"{name}."


def _explain(error: Exception) -> tuple[QueryFailed, int]:
    """The cause and what to do, for the user, and the HTTP status."""
    if isinstance(error, QueryFailed):
        return error, error.status
    if isinstance(error, SanicException):
        return NotFound(str(error)) if error.status_code == 404 else Invalid(str(error)), error.status_code
    if isinstance(error, RequestTimeout) or (isinstance(error, HeadraceError) and error.retryable):
        return QueryFailed(str(error), "Check that the server is running and reachable, then reload the page."), 502
    if isinstance(error, HeadraceError):
        return QueryFailed(str(error)), 502
    if isinstance(error, TimeoutError):
        advice = "Check whether brokers are overloaded or unreachable, then reload the page."
        return QueryFailed(f"the cluster did not answer within {DEADLINE_S:g} s", advice), 504
    return QueryFailed("the console failed to handle the request", "The cause is in logs/headrace.log."), 500


_HTMX_CONFIG: Final = json.dumps({
    "allowEval": False,
    "allowScriptTags": False,
    "includeIndicatorStyles": False,
    "historyCacheSize": 0,
    "selfRequestsOnly": True,
    "refreshOnHistoryMiss": True,
})  # fmt: skip
