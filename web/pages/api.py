"""The API's operations: a page for people, and the OpenAPI document for programs. Both are generated from the declared routes."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from sanic import HTTPResponse, Request

import headrace
from web.paths import API
from web.routes import Access, Change, Query, Raw, Route, View, Visit
from web.tables.export import EXPORT_TYPES
from web.tables.table import SIZES, Column, Table

_PART: Final = re.compile(r"<(\w+):\w+>")
_TABLE_ARGUMENTS: Final = (
    (
        "sort",
        {"type": "string"},
        "The field to sort by; a leading minus sorts in descending order. Not all fields can be sorted by.",
    ),
    ("filter", {"type": "string", "maxLength": 200}, "Only rows that contain this text."),
    ("page", {"type": "integer", "minimum": 1, "maximum": 1_000_000}, "The page, from 1."),
    ("size", {"type": "integer", "minimum": 1, "maximum": SIZES[-1]}, "Rows on a page."),
    (
        "format",
        {"type": "string", "enum": ["json", *EXPORT_TYPES]},
        "`csv` or `jsonl`: all rows of one table that the other arguments select.",
    ),
    ("table", {"type": "string"}, "With `format`: the name of the table; the default is the page's first."),
)


class OperationRow(msgspec.Struct, frozen=True):
    """One operation of the API."""

    path: str
    method: str
    role: str
    summary: str


_COLUMNS: Final[tuple[Column[OperationRow], ...]] = (
    Column("path", "Path"),
    Column("method", "Method"),
    Column("role", "Role", is_word=True),
    Column("summary", "Description", is_word=True),
)


class ApiPages:
    """The pages about the API. `declared` are the routes; those of this room are added to it afterwards."""

    def __init__(self, declared: Sequence[Route], base_path: str) -> None:
        self._declared = declared
        self._base_path = base_path

    def routes(self) -> list[Route]:
        """What it serves."""
        return [
            Query("/api", self.show, "List the operations of the API.", menu="API", shortcut="i"),
            Raw(f"{API}/openapi.json", self._document, Access.VIEWER),
        ]

    async def show(self, _visit: Visit) -> View:
        """All operations."""
        rows = [
            OperationRow(API + _template(route.path), method, route.access.name.lower(), route.summary)
            for route, method in _operations(self._declared)
        ]
        table = Table("operations", OperationRow, rows, _COLUMNS, search=("path", "summary", "role"), sort="path")
        return View("API", "api.html", tables=[table])

    async def _document(self, _request: Request, _visit: Visit) -> HTTPResponse:
        document = openapi(self._declared, self._base_path)
        headers = {"Cache-Control": "no-store"}
        return HTTPResponse(msgspec.json.encode(document), content_type="application/json", headers=headers)


def openapi(declared: Sequence[Route], base_path: str) -> dict[str, Any]:
    """The OpenAPI document of the declared operations."""
    forms = [route.form for route in declared if isinstance(route, Change)]
    schemas, components = msgspec.json.schema_components(forms, ref_template="#/components/schemas/{name}")
    form_schemas = dict(zip(forms, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route, method in _operations(declared):
        path = paths.setdefault(_template(route.path), {})
        path[method.lower()] = {
            "operationId": f"{method.lower()}{re.sub(r'[^A-Za-z0-9]+', '_', _template(route.path)).rstrip('_')}",
            "summary": route.summary,
            "description": f"Needs the role {route.access.name.lower()}.",
            "parameters": [
                {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
                for name in _PART.findall(route.path)
            ]
            + ([] if isinstance(route, Change) else _arguments(route))
            + (_TABLE_PARAMETERS if isinstance(route, Query) else []),
            **(
                {"requestBody": {"required": True, "content": _json(form_schemas[route.form])}}
                if isinstance(route, Change)
                else {}
            ),
            "responses": {
                "200": _success(route),
                **{status: _answer(reason, "Failure") for status, reason in _FAILURES.items()},
            },
        }  # fmt: skip
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Headrace console",
            "version": headrace.__version__,
            "description": "The data and operations of the console's pages, as JSON. Tables are objects with rows, total, page and size. "
            "Times are milliseconds since 1970, 0 for never; durations, such as delay, are milliseconds; sizes are bytes, and shares 0 to 1. "
            "A name with another unit ends with it: cached_mib.",
        },
        "servers": [{"url": f"{base_path}{API}"}],
        "security": [{"token": []}],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": {**components, **_SCHEMAS},
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "A token from the API tokens page."}
            },
        },
    }


_FAILURES: Final = {
    "400": "The request is invalid.",
    "401": "There is no valid token.",
    "403": "The role of the token is too low.",
    "404": "What the request names does not exist.",
    "413": "The request is too large.",
    "429": "There were too many attempts.",
    "502": "The cluster refused the request or failed.",
    "503": "A broker or the console cannot serve the request at present.",
    "504": "The cluster did not answer in time.",
}
_TABLE_PARAMETERS: Final = [
    {"name": name, "in": "query", "schema": schema, "description": description}
    for name, schema, description in _TABLE_ARGUMENTS
]
_SCHEMAS: Final[dict[str, Any]] = {
    "Data": {
        "type": "object",
        "properties": {"problems": {"type": "array", "items": {"type": "string"}}},
        "required": ["problems"],
    },
    "Outcome": {
        "type": "object",
        "properties": {"message": {"type": "string"}, "before": {}, "after": {}, "location": {"type": "string"}},
        "required": ["message", "before", "after", "location"],
    },
    "Failure": {
        "type": "object",
        "properties": {"error": {"type": "string"}, "advice": {"type": "string"}},
        "required": ["error", "advice"],
    },
}


def _operations(declared: Sequence[Route]) -> Iterator[tuple[Route, str]]:
    for route in declared:
        if isinstance(route, Change):
            yield route, "POST"
        elif route.summary:
            yield route, "GET"


def _arguments(route: Query | Raw) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "query", "schema": {"type": "string"}, "description": description}
        for name, description in route.arguments.items()
    ]


def _template(path: str) -> str:
    return _PART.sub(r"{\1}", path.removeprefix(API))


def _success(route: Route) -> dict[str, Any]:
    match route:
        case Change():
            return _answer("What was done.", "Outcome")
        case Query():
            answer = _answer("The page's data and tables, or with `format` one table.", "Data")
            answer["content"] |= {kind: {} for kind in EXPORT_TYPES.values()}
            return answer
        case Raw():
            return {"description": route.summary, "content": {kind: {} for kind in route.answers}}


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _answer(description: str, schema: str) -> dict[str, Any]:
    return {"description": description, "content": _json({"$ref": f"#/components/schemas/{schema}"})}
