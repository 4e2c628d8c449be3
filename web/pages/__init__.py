"""The pages, one module for each.

**How to add a page.** Write a module with a class that is given what it reads (`Cluster`, functions) and has `routes()`:

    class GroupRow(msgspec.Struct, frozen=True):
        group: str
        lag: int | None = None

    class GroupPages:
        def __init__(self, cluster: Cluster) -> None: ...

        def routes(self) -> list[Route]:
            return [
                Query("/groups", self.list_groups, "List the consumer groups.", menu="Consumer groups", shortcut="c"),
                Query("/groups/<group:str>", self.show_group, "Show a consumer group.", section="Consumer groups"),
                Change("/groups/<group:str>/delete", DeleteGroup, self.delete, "group.delete", "Delete a group."),
            ]

        async def list_groups(self, visit: Visit) -> View:
            rows = ...                       # all rows, with what few requests answer
            table = Table("groups", GroupRow, rows, COLUMNS, search=("group",), sort="group", enrich=self._add_lag)
            return View("Consumer groups", "groups/list.html", tables=[table])

Then add it to `web/application.py`, and its template to `web/templates/`. A template extends `layout.html` and fills `content`; it gets
`view`, `tables` (TableViews by name) and `visit`. `{{ table(tables.groups) }}` is the whole table: sorting, filter, paging, CSV, JSON Lines.
`{{ t("Text") }}` translates: every such text needs its Chinese in `web/translations/zh.json`, and a test lists what is missing.
`{{ url("/groups") }}` puts the base path before an address; use `path_of("groups", name)` for names in addresses.

- Read through `cluster.read(key, fetch)`: it shares answers between pages. Do not call `cluster.admin` in a query.
- Rows hold what a fixed number of requests answers. What costs a request for each row belongs into `enrich`, which is called for the rows
  that are shown only; mark its columns `is_enriched`.
- A failed request is an error: let HeadraceError pass, or put what failed into `View.problems` if the rest is useful. Never show an empty
  list instead. A row whose enrichment failed shows None, and the problem goes into the row's own `problem` field.
- A change is a `Change`: a form (msgspec Struct), who may do it, and what it did (`Outcome` with before and after for the audit log). Put a
  form into a template with `{% call form("/groups/x/delete", OPERATOR) %}…{% endcall %}`, which adds the CSRF token and is left out for users who may not use it.
  A form that is refused is shown again on its page with what was entered: raise QueryFailed or let HeadraceError pass. Name fields with
  secrets in `secrets` of the Change: they come back empty.
- Words: Apache's dashboard's where it has the page (Topic, Consumer, Producer, Message, ACL), in plain English.
- No inline scripts, styles or handlers: the content security policy blocks them. Small behaviour goes into `web/static/console.js`.
- Times are milliseconds in rows; the table renders them as `<time>`, in UTC, and the browser changes them to the user's zone.
"""
