"""PageRenderer: a View as an HTML page in the visitor's language."""

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, field
from sanic import HTTPResponse, Request

from web.accounts.time_zones import zone_of
from web.errors import QueryFailed
from web.routes import Access, Outcome, Query, View, Visit
from web.serving.form_filler import PAGE_FIELD, Entered, fill
from web.serving.html import Templates
from web.serving.visitors import Visitors
from web.tables.table import TableView
from web.translations import LANGUAGES, choose_language, translator

_MOST_NOTICES: Final = 1_000  # limit: notices that nobody has fetched

MENU_GROUPS: Final = (
    ("", ("Dashboard", "Alerts")),
    ("Cluster", ("Cluster", "Replication", "Topics", "Consumer groups", "Producers")),
    ("Message data", ("Find messages", "Message trace", "Dead letters", "Delayed messages", "Transactions", "Exports")),
    ("Administration", ("ACL", "Users", "Audit log", "API tokens", "API")),
)
"""The navigation: headings, and the `menu` of the pages below each."""

_HTMX_CONFIG: Final = json.dumps({
    "allowEval": False,
    "allowScriptTags": False,
    "includeIndicatorStyles": False,
    "historyCacheSize": 0,
    "selfRequestsOnly": True,
    "refreshOnHistoryMiss": True,
})  # fmt: skip


class PageRenderer(Struct, frozen=True):
    """Renders pages; keeps the notice of a change until the session's next page shows it."""

    templates: Templates
    visitors: Visitors
    menu: Sequence[Query]
    base_path: str
    cluster_name: str
    firing_count: Callable[[], int] = lambda: 0
    """How many alerts fire: shown in the menu."""
    _notices: OrderedDict[str, Outcome] = field(default_factory=OrderedDict)

    def notice(self, request: Request, outcome: Outcome) -> None:
        """Show the outcome of a change on the session's next page."""
        self.notice_to(self.visitors.csrf(request), outcome)

    def notice_to(self, csrf: str, outcome: Outcome) -> None:
        """The same for the session with this CSRF token."""
        self._notices[csrf] = outcome
        while len(self._notices) > _MOST_NOTICES:
            self._notices.popitem(last=False)

    def page(
        self,
        request: Request,
        visit: Visit,
        view: View,
        tables: Mapping[str, TableView[Any]] | None = None,
        here: str = "",
        status: int = 200,
        address: str = "",
    ) -> HTTPResponse:
        """The page. `here` is the entry of the navigation to which it belongs; `address` shows it again, if the request's does not."""
        return _html(self._text(request, visit, view, tables or {}, here, address), status)

    def page_with_form(
        self,
        request: Request,
        visit: Visit,
        view: View,
        tables: Mapping[str, TableView[Any]],
        here: str,
        address: str,
        entered: Entered,
        failure: QueryFailed,
        status: int,
    ) -> HTTPResponse | None:
        """The page at `address` with a form that was refused: what was entered, and why it was refused. None if the page does not have the form."""
        page = self._text(request, visit, view, tables, here, address)
        why = self.templates.render("refused.html", t=translator(_language(request)), failure=failure)
        filled = fill(page, entered, why)
        return None if filled is None else _html(filled, status)

    def _text(
        self,
        request: Request,
        visit: Visit,
        view: View,
        tables: Mapping[str, TableView[Any]],
        here: str,
        address: str,
    ) -> str:
        language = _language(request)
        csrf = self.visitors.csrf(request)
        path = address.partition("?")[0] or request.path.removeprefix(self.base_path)
        menu = [entry for entry in self.menu if visit.access >= entry.access]
        t, notice = translator(language), self._notices.pop(csrf, None) if visit.user else None
        return self.templates.render(
            view.template,
            t=t,
            language=language,
            languages=LANGUAGES,
            view=view,
            tables=tables,
            visit=visit,
            time_zone=zone_of(visit.zone),
            csrf=csrf,
            page_field=PAGE_FIELD,
            notice=notice,
            notice_values={} if notice is None else _notice_values(notice, t),
            menu=menu,
            menu_groups=_grouped(menu),
            here=here,
            firing=self.firing_count() if visit.user else 0,
            path=path,
            here_with_query=address or (f"{path}?{request.query_string}" if request.query_string else path),
            cluster_name=self.cluster_name if visit.user else "",
            Access=Access,
            htmx_config=_HTMX_CONFIG,
        )


def _language(request: Request) -> str:
    return choose_language(request.cookies.get("language"), request.headers.get("accept-language", ""))


def _notice_values(notice: Outcome, t: Callable[..., str]) -> dict[str, Any]:
    return {name: t(value) if name in notice.words else value for name, value in notice.values.items()}


def _html(text: str, status: int) -> HTTPResponse:
    headers = {"Cache-Control": "no-store"}
    return HTTPResponse(text, status=status, content_type="text/html; charset=utf-8", headers=headers)


def _grouped(menu: Sequence[Query]) -> list[tuple[str, list[Query]]]:
    """The headings that have entries, with them."""
    entries = {entry.menu: entry for entry in menu}
    groups = [(title, [entries[name] for name in names if name in entries]) for title, names in MENU_GROUPS]
    return [(title, found) for title, found in groups if found]
