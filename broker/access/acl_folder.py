"""AclFolder: the ACL files of one broker, under RocketMQ's home folder.

    HOME/conf/acl/**/*.yml, *.yaml      read first, in the order of their names
    HOME/conf/plain_acl.yml             read last; new accounts go here. `rocketmq.acl.plain.file` names another one, relative to HOME

An access key that several files define belongs to the first.
"""

import fcntl
import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from msgspec import Struct

from broker.access.access_rules import AccessRules
from broker.access.account import Account
from broker.access.acl_file import give_to_owner_of, read_rules
from broker.access.address_pattern import AddressPattern
from broker.access.errors import BadAclFile
from headrace.model.data_version import DataVersion

PLAIN_FILE: Final = "conf/plain_acl.yml"
_SUFFIXES: Final = (".yml", ".yaml")
MAX_FILES: Final = 1024  # limit: as many are looked at every second
LOCK_S: Final = (
    5.0  # limit: a change takes milliseconds; a program that is stopped in the middle holds nobody up for longer
)
LOCK_POLL_S: Final = 0.01

logger = logging.getLogger(__name__)

State = tuple[tuple[str, int, int, int], ...]
"""Of each file its path, inode, size and time of change."""


class LoadedAcl(Struct, frozen=True):
    """What all files hold."""

    rules: AccessRules
    places: Mapping[str, Path]
    """The file of each access key."""
    versions: Mapping[Path, DataVersion]
    """Of each file that is not empty."""


class AclFolder:
    """Finds and reads the files. Nothing is kept here."""

    def __init__(self, home: Path, plain_file: str = PLAIN_FILE) -> None:
        self.home = Path(os.path.abspath(home))
        self.plain_file = self.home / (plain_file or PLAIN_FILE).lstrip("/")
        self.folder = self.home / "conf" / "acl"

    def files(self) -> list[Path]:
        """The files that exist, in the order in which they are read. Raises BadAclFile if they are too many."""
        found = [
            Path(folder, name)
            for folder, _, names in os.walk(self.folder)
            for name in names
            if name.endswith(_SUFFIXES)
        ]
        found.sort()
        if len(found) > MAX_FILES:
            raise BadAclFile(
                f"{self.folder} contains {len(found)} ACL files, the maximum is {MAX_FILES}; merge some of them"
            )
        if self.plain_file not in found and self.plain_file.exists():
            found.append(self.plain_file)
        return found

    def state(self) -> State:
        """Changes whenever a file changes, appears or disappears. Raises BadAclFile."""
        states = []
        for path in self.files():
            try:
                status = path.stat()
            except OSError:
                continue  # gone again, or a link to nothing: reading it will tell
            states.append((str(path), status.st_ino, status.st_size, status.st_mtime_ns))
        return tuple(states)

    def load(self) -> LoadedAcl:
        """Reads all files. Raises BadAclFile, whose text names the file."""
        accounts: dict[str, Account] = {}
        places: dict[str, Path] = {}
        versions: dict[Path, DataVersion] = {}
        white: list[AddressPattern] = []
        for path in self.files():
            rules = read_rules(path)
            if rules is None:
                continue
            white.extend(rules.white_addresses)
            versions[path] = rules.data_version or DataVersion()
            for account in rules.accounts:
                if account.access_key in accounts:
                    logger.warning(
                        "duplicate access key ignored access_key=%s used_path=%s ignored_path=%s",
                        account.access_key, places[account.access_key], path,
                    )  # fmt: skip
                    continue
                accounts[account.access_key] = account
                places[account.access_key] = path
        return LoadedAcl(AccessRules(accounts, tuple(white)), places, versions)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keeps other programs of ours from changing files meanwhile. Makes HOME/conf if it does not exist.

        Raises BadAclFile if another one takes too long, and OSError.
        """
        folder = self.home / "conf"
        if not folder.exists():
            folder.mkdir(parents=True, exist_ok=True)
            give_to_owner_of(self.home, folder)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self._lock(descriptor)
            yield
        finally:
            os.close(descriptor)

    def _lock(self, descriptor: int) -> None:
        deadline = time.monotonic() + LOCK_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise BadAclFile(
                        f"{self.home / 'conf'}: another program is changing the ACL files; try again"
                    ) from None
                time.sleep(LOCK_POLL_S)
            else:
                return
