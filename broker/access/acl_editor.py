"""AclEditor: changes accounts and white addresses in the files that hold them, as RocketMQ's requests 50, 51 and 53 do.

A change is checked as a whole before anything is written, and raises the file's dataVersion.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from broker.access.acl_file import (
    Content,
    data_version_of,
    plain_name,
    read_content,
    rules_of,
    text_of,
    write_content,
)
from broker.access.acl_folder import AclFolder
from broker.access.errors import BadAclFile
from broker.access.permission import WORDS
from headrace.model.data_version import DataVersion


@dataclass(frozen=True, slots=True)
class AccountChange:
    """What an account is to have. None keeps what it has; a new account has RocketMQ's defaults there."""

    access_key: str
    secret_key: str | None = field(repr=False)
    white_address: str | None = None
    is_admin: bool = False
    default_topic: str | None = None
    default_group: str | None = None
    topics: Sequence[str] | None = None
    """`topic=PERMISSION`; replaces all that the account has."""
    groups: Sequence[str] | None = None

    def fields(self) -> dict[str, Any]:
        """The fields of a file that it sets."""
        fields = {
            "accessKey": self.access_key,
            "secretKey": self.secret_key or None,
            "whiteRemoteAddress": self.white_address,
            "admin": self.is_admin,
            "defaultTopicPerm": self.default_topic or None,
            "defaultGroupPerm": self.default_group or None,
            "topicPerms": None if self.topics is None else list(self.topics),
            "groupPerms": None if self.groups is None else list(self.groups),
        }
        return {key: value for key, value in fields.items() if value is not None}


class AclEditor:
    """Changes the files of one folder. Its functions read and write files; they take milliseconds."""

    def __init__(self, folder: AclFolder) -> None:
        self._folder = folder

    def put_account(self, change: AccountChange) -> Path:
        """Makes the account, in the plain file, or changes it where it is. Returns the file.

        Raises BadAclFile or OSError; nothing has changed then.
        """
        for entry in (*(change.topics or ()), *(change.groups or ())):
            _check_permission(entry)
        with self._folder.locked():
            path = self._folder.load().places.get(change.access_key, self._folder.plain_file)
            content = read_content(path)
            accounts = _accounts_of(content)
            index = _index_of(accounts, change.access_key)
            # compat: a changed account moves to the end.
            account = {} if index is None else accounts.pop(index)
            accounts.append(_without_synonyms(account) | change.fields())
            self._write(path, content)
            return path

    def remove_account(self, access_key: str) -> Path | None:
        """Removes the account. Returns the file that held it, None if there is no such account. Raises BadAclFile, OSError."""
        with self._folder.locked():
            path = self._folder.load().places.get(access_key)
            if path is None:
                return None
            content = read_content(path)
            accounts = _accounts_of(content)
            index = _index_of(accounts, access_key)
            if index is None:
                return None
            # All entries of the key: a second one, ignored so far, would take the place of the first.
            content["accounts"] = [one for one in accounts if _access_key_of(one) != access_key]
            self._write(path, content)
            return path

    def put_white_addresses(self, patterns: Sequence[str], path: Path | None = None) -> bool:
        """Replaces the global white addresses of a file, of the plain one by default. False if it is none of the ACL files.

        Raises BadAclFile, OSError; nothing has changed then.
        """
        with self._folder.locked():
            path = path or self._folder.plain_file
            if path != self._folder.plain_file and path not in self._folder.files():
                return False
            content = read_content(path)
            content["globalWhiteRemoteAddresses"] = list(patterns)
            self._write(path, content)
            return True

    def _write(self, path: Path, content: Content) -> None:
        version = (data_version_of(content) or DataVersion()).next()
        content["dataVersion"] = [{"counter": version.counter, "timestamp": version.timestamp}]
        rules_of(content)
        write_content(path, content)


def _accounts_of(content: Content) -> list[Any]:
    """The list of accounts in the content; made if there is none."""
    if content.get("accounts") is None:
        content["accounts"] = []
    accounts = content["accounts"]
    if not isinstance(accounts, list):
        raise BadAclFile("accounts: expected a list")
    return accounts


def _index_of(accounts: Sequence[Any], access_key: str) -> int | None:
    return next((index for index, account in enumerate(accounts) if _access_key_of(account) == access_key), None)


def _access_key_of(account: Any) -> str | None:
    return text_of(_without_synonyms(account).get("accessKey")) if isinstance(account, dict) else None


_FIELDS = {
    name.lower(): name
    for name in (
        "accessKey", "secretKey", "whiteRemoteAddress", "admin", "defaultTopicPerm", "defaultGroupPerm", "topicPerms",
        "groupPerms",
    )
}  # fmt: skip


def _without_synonyms(account: dict[Any, Any]) -> dict[Any, Any]:
    """The account's entry with RocketMQ's spelling of its fields."""
    return {_FIELDS.get(plain_name(key), key) if isinstance(key, str) else key: value for key, value in account.items()}


def _check_permission(entry: str) -> None:
    """Raises BadAclFile, with RocketMQ's text, unless the entry is `name=PERMISSION`."""
    parts = [part for part in entry.split("=") if part]
    if len(parts) != 2:
        raise BadAclFile(
            f"Parse Resource format error for {entry}.\nThe expected resource format is 'Res=Perm'. For example: topicA=SUB"
        )
    if parts[1].strip() not in WORDS:
        raise BadAclFile(
            f"Parse resource permission error for {entry}.\n"
            "The expected permissions are 'SUB' or 'PUB' or 'SUB|PUB' or 'PUB|SUB'."
        )
