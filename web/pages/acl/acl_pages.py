"""AclPages: what this room serves."""

from web.cluster.cluster import Cluster
from web.pages.acl.access_check import CHECK_ARGUMENTS, AccessCheck
from web.pages.acl.account_page import RULE_ARGUMENTS, AccountForm, AccountPage, DeletionForm
from web.pages.acl.acl_list import AclList, WhiteForm
from web.pages.acl.acl_reads import AclReads
from web.routes import Access, Change, Query, Route, secret

_MENU = "ACL"


class AclPages:
    """The pages of access control."""

    def __init__(self, cluster: Cluster) -> None:
        reads = AclReads(cluster)
        self._list = AclList(reads)
        self._check = AccessCheck(reads)
        self._account = AccountPage(reads)

    def routes(self) -> list[Route]:
        """What it serves."""
        account = "/acl/accounts/<account:str>"
        return [
            Query("/acl", self._list.show, "List the accounts and whitelisted addresses.", menu=_MENU, shortcut="k"),
            Query(
                "/acl/check",
                self._check.show,
                "Show who may do something, and why.",
                section=_MENU,
                arguments=CHECK_ARGUMENTS,
            ),
            Query(
                "/acl/new",
                self._account.show_new,
                "Preview the rules of a new account.",
                Access.ADMIN,
                section=_MENU,
                arguments={"access_key": "The name of the new account.", **RULE_ARGUMENTS},
            ),
            Query(
                account,
                self._account.show,
                "Show an account's rules, or preview new ones.",
                Access.ADMIN,
                section=_MENU,
                arguments=RULE_ARGUMENTS,
            ),
            Change(
                "/acl/accounts",
                AccountForm,
                self._account.put,
                "acl.account.put",
                "Create or change an account.",
                Access.ADMIN,
                subject=lambda _, form: form.access_key,
                secrets=secret("secret_key"),
            ),
            Change(
                f"{account}/delete",
                DeletionForm,
                self._account.delete,
                "acl.account.delete",
                "Delete an account.",
                Access.ADMIN,
            ),
            Change(
                "/acl/white-addresses",
                WhiteForm,
                self._list.put_white_addresses,
                "acl.white_addresses.put",
                "Replace the global whitelisted addresses.",
                Access.ADMIN,
                subject=lambda _, form: form.broker,
            ),
        ]
