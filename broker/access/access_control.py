"""AccessControl: holds the rules that are in force, and replaces them when an ACL file changes.

The files are looked at every second. A change is read once it has lasted from one look to the next, so that a file that is being written is not
read half. If it cannot be read, the rules in force stay and the error is logged once.

    control = AccessControl(AclFolder(home))    raises BadAclFile: a broker that cannot read its rules does not start
    asyncio.create_task(control.keep())
    control.rules.check(host, command)
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

from broker.access.access_rules import AccessRules
from broker.access.acl_editor import AclEditor
from broker.access.acl_folder import AclFolder, LoadedAcl, State
from broker.access.errors import BadAclFile
from headrace.model.data_version import DataVersion

T = TypeVar("T")

LOOK_S: Final = 1.0  # limit: RocketMQ looks every 5 s

logger = logging.getLogger(__name__)


class AccessControl:
    """The rules in force. Owned by the broker's event loop; files are read and written in threads."""

    def __init__(self, folder: AclFolder) -> None:
        """Reads the files. Raises BadAclFile."""
        self.folder = folder
        self._editor = AclEditor(folder)
        self._seen = self._read_state = folder.state()
        self._loaded = folder.load()
        self._version = 1
        self._listeners: list[Callable[[AccessRules], None]] = []
        self._lock = asyncio.Lock()
        self._problem = ""
        self._plain_version = DataVersion()
        self._log_loaded()
        if self._loaded.rules == AccessRules():
            logger.warning(
                "ACL has no accounts, all requests are rejected home=%s advice='headrace acl add ACCOUNT --admin'",
                folder.home,
            )

    @property
    def rules(self) -> AccessRules:
        """The rules in force."""
        return self._loaded.rules

    @property
    def version(self) -> int:
        """Grows whenever the rules are replaced."""
        return self._version

    @property
    def file_versions(self) -> Mapping[Path, DataVersion]:
        """The dataVersion of each file."""
        return self._loaded.versions

    @property
    def plain_version(self) -> DataVersion:
        """The dataVersion of the plain file; from the start of the broker if it has none."""
        return self._loaded.versions.get(self.folder.plain_file, self._plain_version)

    def on_change(self, listener: Callable[[AccessRules], None]) -> None:
        """Calls `listener` with the new rules after they have been replaced."""
        self._listeners.append(listener)

    async def keep(self) -> None:
        """Looks at the files until cancelled."""
        while True:
            await asyncio.sleep(LOOK_S)
            await self.look()

    async def look(self) -> None:
        """Reads the files again if they have changed and then stayed as they are since the last look."""
        async with self._lock:
            try:
                state = await asyncio.to_thread(self.folder.state)
                if state == self._read_state:
                    self._seen = state
                elif state == self._seen:
                    await self._load(state)
                else:
                    self._seen = state
            except (BadAclFile, OSError) as error:
                self._report(str(error))

    async def change(self, edit: Callable[[AclEditor], T]) -> T:
        """Lets `edit` change the files, in a thread, and puts the new rules into force.

        Raises BadAclFile and OSError if `edit` does; the rules in force stay then.
        """
        async with self._lock:
            result = await asyncio.to_thread(edit, self._editor)
            await self._load(await asyncio.to_thread(self.folder.state))
            return result

    async def _load(self, state: State) -> None:
        # Also if it fails: the same content is not read again every second.
        self._read_state = self._seen = state
        self._put(await asyncio.to_thread(self.folder.load))

    def _put(self, loaded: LoadedAcl) -> None:
        if self._problem or loaded.rules != self._loaded.rules:
            self._version += 1
            self._loaded = loaded
            self._log_loaded()
        self._problem = ""
        self._loaded = loaded
        for listener in self._listeners:
            listener(loaded.rules)

    def _log_loaded(self) -> None:
        rules = self._loaded.rules
        logger.info(
            "ACL loaded version=%d files=%d accounts=%d global_white_addresses=%d",
            self._version, len(self._loaded.versions), len(rules.accounts), len(rules.white_addresses),
        )  # fmt: skip

    def _report(self, problem: str) -> None:
        if problem != self._problem:
            logger.error("ACL not reloaded, the previous rules stay in force error=%r", problem)
        self._problem = problem
