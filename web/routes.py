"""What a room declares: routes, as data. `serving` turns them into HTTP.

A `Query` answers a GET: its View is the page, each table of it is available as CSV and JSON Lines (`?format=csv&table=NAME`), and the same
function answers `/api/v1` + path as JSON, or a table as CSV or JSON Lines. A `Change` answers a POST of a form or of JSON; the dispatcher checks the user's role and the CSRF
token before it, and writes the audit log after it, whatever the outcome. `Raw` is for everything else, such as `/metrics` or a stream of events.
"""

import enum
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
from msgspec import Struct, field
from sanic import HTTPResponse, Request

from web.tables.table import Table

F = TypeVar("F", bound=msgspec.Struct)


class Access(enum.IntEnum):
    """Who may use a route: each includes those below it."""

    ANYONE = 0
    """Without a login."""
    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3


class Visit(Struct, frozen=True):
    """One request, as a page sees it."""

    user: str
    """The name of the user; empty without a login."""
    access: Access
    address: str
    """The user's address, for the audit log."""
    path: Mapping[str, str] = field(default_factory=dict)
    """The parts of the path that the route names, such as `topic`."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    """The arguments of the address; of each the first value."""
    is_local: bool = False
    """Whether a program on this machine sent the request, without a proxy."""
    token: str = ""
    """The name of the API token that was sent; empty for browsers."""
    zone: str = ""
    """The time zone that the user chose (`accounts.time_zones`)."""

    @property
    def actor(self) -> str:
        """Who it is, for the audit log."""
        return f"{self.user} (token {self.token})" if self.token else self.user


class Problem(Struct, frozen=True):
    """What could not be read, as a text that is translated. Texts of others, such as of brokers, are shown as they are."""

    key: str
    """English, a key of the translations, with `values` for its `{names}`."""
    values: Mapping[str, Any]

    def __str__(self) -> str:
        """In English."""
        return self.key.format(**self.values)


class View(Struct, frozen=True):
    """What a page shows: a template, its data, and its tables. The API answers data and tables."""

    title: str
    """English, a key of the translations."""
    template: str
    data: Mapping[str, Any] = field(default_factory=dict)
    """What the template shows besides tables; can be encoded as JSON."""
    tables: Sequence[Table[Any]] = ()
    subject: str = ""
    """What the page is about, such as the name of a topic: shown after the title."""
    problems: Sequence[str | Problem] = ()
    """What could not be read, and why; the rest is shown. If nothing can be read, raise QueryFailed or let HeadraceError pass."""
    is_subject_word: bool = False
    """The subject is a word of the console, a key of the translations, and not a name."""


class Outcome(Struct, frozen=True):
    """What a change did."""

    message: str
    """Shown to the user: English, a key of the translations, with `values` for its `{names}`."""
    values: Mapping[str, Any] = field(default_factory=dict)
    location: str = "/"
    """The page that the browser shows next, without the base path."""
    before: Any = None
    """For the audit log: what was there before, and what is there now; can be encoded as JSON. Never a secret."""
    after: Any = None
    is_warning: bool = False
    """Whether users must look at it, although nothing failed: it is not shown in the color of success."""
    words: frozenset[str] = frozenset()
    """The names of the values that are words of the console, keys of the translations."""
    more: Sequence[str] = ()
    """Further sentences after `message`, with the same values."""
    details: str = ""
    """The page of what was made, to which the notice links; without the base path."""

    @property
    def text(self) -> str:
        """All sentences, in English."""
        return " ".join(one.format(**self.values) for one in (self.message, *self.more))


class Query(Struct, frozen=True):
    """A page, and the same as JSON."""

    path: str
    """As in Sanic: `/topics/<topic:str>`. Names of topics and groups in it are percent-encoded."""
    run: Callable[[Visit], Awaitable[View]]
    summary: str
    """One line for the API's document and page: English, a key of the translations."""
    access: Access = Access.VIEWER
    menu: str = ""
    """Its entry in the navigation (English, a key of the translations); empty: none."""
    section: str = ""
    """The `menu` of the page to which it belongs, for a page without an entry of its own."""
    shortcut: str = ""
    """The key that opens it after `g`."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    """What its address may carry besides the arguments of tables, each with a line for the API's document."""


class Change(Struct, Generic[F], frozen=True):
    """A form, and the same as JSON. `action` names it in the audit log: `topic.create`."""

    path: str
    form: type[F]
    run: Callable[[Visit, F], Awaitable[Outcome]]
    action: str
    summary: str
    access: Access = Access.OPERATOR
    subject: Callable[[Visit, F], str] | None = None
    """What is changed, for the audit log: the topic, the group."""
    secrets: Callable[[Mapping[str, Sequence[str]]], Collection[str]] = lambda _: ()
    """The names of the fields, among those sent, that are not shown again when the form was refused."""


class Raw(Struct, frozen=True):
    """Anything else: the handler answers the request itself."""

    path: str
    run: Callable[[Request, Visit], Awaitable[HTTPResponse | None]]
    access: Access
    methods: tuple[str, ...] = ("GET",)
    summary: str = ""
    """For programs: it is served below `/api/v1`, too, and in the API's document; a key of the translations. Empty: it is not."""
    arguments: Mapping[str, str] = field(default_factory=dict)
    """As of a Query."""
    answers: tuple[str, ...] = ("application/json",)
    """The types of its answers, for the API's document."""


def secret(*names: str) -> Callable[[Mapping[str, Sequence[str]]], Collection[str]]:
    """For `Change.secrets`: these fields."""
    return lambda _: names


Route: TypeAlias = Query | Change[Any] | Raw
