"""API tokens: users create and revoke their own; administrators see and revoke all."""

from typing import Annotated, Final, Literal

import msgspec

from web.accounts.tokens import MOST_DAYS, Token, Tokens
from web.errors import NotFound, Refused
from web.routes import Access, Change, Outcome, Query, Route, View, Visit
from web.tables.table import Column, Kind, Table

_MENU: Final = "API tokens"


class TokenRow(msgspec.Struct, frozen=True):
    """One token."""

    token: str
    """Its id."""
    name: str
    user: str
    role: str
    created: int
    expires: int
    last_used: int


class CreateTokenForm(msgspec.Struct, forbid_unknown_fields=True):
    """A new token."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=64)]
    role: Literal["viewer", "operator", "admin"] = "viewer"
    days: Annotated[int, msgspec.Meta(ge=1, le=MOST_DAYS)] = 90


class RevokeForm(msgspec.Struct, forbid_unknown_fields=True):
    """A form without fields."""


_COLUMNS: Final[tuple[Column[TokenRow], ...]] = (
    Column("name", "Name", link=lambda row: f"/tokens/{row.token}"),
    Column("user", "User"),
    Column("role", "Role", is_word=True),
    Column("created", "Created", Kind.TIME),
    Column("expires", "Expires", Kind.TIME),
    Column("last_used", "Last used", Kind.TIME),
)


class TokenPages:
    """The pages of API tokens."""

    def __init__(self, tokens: Tokens) -> None:
        self._tokens = tokens

    def routes(self) -> list[Route]:
        """What it serves."""
        viewer = Access.VIEWER
        return [
            Query(
                "/tokens",
                self.list_tokens,
                "List your API tokens; administrators see all tokens.",
                menu=_MENU,
                shortcut="n",
            ),
            Query("/tokens/<token:str>", self.show, "Show an API token.", section=_MENU),
            Change(
                "/tokens",
                CreateTokenForm,
                self.create,
                "token.create",
                "Create an API token; only this answer has it.",
                viewer,
                lambda _, form: form.name,
            ),
            Change(
                "/tokens/<token:str>/delete", RevokeForm, self.revoke, "token.revoke", "Revoke an API token.", viewer
            ),
        ]

    async def list_tokens(self, visit: Visit) -> View:
        """The user's tokens, or all."""
        rows = [_row(token) for token in self._visible(visit)]
        table = Table(
            "tokens", TokenRow, rows, _COLUMNS, search=("name", "user"), sort="name", empty="There are no tokens."
        )
        roles = [access.name.lower() for access in Access if Access.ANYONE < access <= visit.access]
        return View("API tokens", "tokens/list.html", {"roles": roles, "most_days": MOST_DAYS}, [table])

    async def show(self, visit: Visit) -> View:
        """One token."""
        return View("API token", "tokens/show.html", {"token": _row(self._find(visit))}, subject=self._find(visit).name)

    async def create(self, visit: Visit, form: CreateTokenForm) -> Outcome:
        """Creates a token."""
        if visit.token:
            raise Refused("a token cannot create tokens", "Log in with a browser.")
        access = Access[form.role.upper()]
        if access > visit.access:
            raise Refused(
                "{user} has the role {role}; a token cannot have the role {wanted}",
                user=visit.user,
                role=visit.access.name.lower(),
                wanted=form.role,
            )
        secret = self._tokens.create(visit.user, form.name, access, form.days)
        return Outcome(
            "The token {name} was created. Copy it now, it is not shown again: {token}",
            {"name": form.name, "token": secret},
            "/tokens",
            after={"role": form.role, "days": form.days},
        )

    async def revoke(self, visit: Visit, _form: RevokeForm) -> Outcome:
        """Revokes a token."""
        token = self._find(visit)
        self._tokens.revoke(token.id)
        before = {"name": token.name, "user": token.user, "role": token.access.name.lower()}
        return Outcome("The token {name} was revoked.", {"name": token.name}, "/tokens", before=before)

    def _visible(self, visit: Visit) -> list[Token]:
        is_admin = visit.access >= Access.ADMIN
        return [token for token in self._tokens.list() if is_admin or token.user == visit.user]

    def _find(self, visit: Visit) -> Token:
        found = next((token for token in self._visible(visit) if token.id == visit.path["token"]), None)
        if found is None:
            raise NotFound("the token does not exist, was revoked or has expired", "Choose one from the list.")
        return found


def _row(token: Token) -> TokenRow:
    role = token.access.name.lower()
    return TokenRow(token.id, token.name, token.user, role, token.created_ms, token.expires_ms, token.used_ms)
