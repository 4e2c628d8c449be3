"""InstalledProgram: whether the installed files of the appliance were replaced after this process was started.

Roles import their modules after the fork. A supervisor that forked a role after an upgrade would run two versions on one store.
"""

from pathlib import Path
from typing import Final

import appliance
from appliance.errors import ProgramReplaced

_SITE_PACKAGES: Final = Path(appliance.__file__).parents[1]
_RECORDS: Final = "headrace_appliance-*.dist-info/RECORD"


class InstalledProgram:
    """The program as it is installed now: the installer's list of its files with their hashes.

    A clone has no such list, and counts as never replaced.
    """

    def __init__(self, site_packages: Path = _SITE_PACKAGES) -> None:
        self._site_packages = site_packages
        self._first = self._read()

    def check(self) -> None:
        """Called before each fork. Raises ProgramReplaced."""
        if self._read() != self._first:
            raise ProgramReplaced("the installed program was replaced while it was running; start it again")

    def _read(self) -> dict[str, bytes]:
        try:
            return {str(path): path.read_bytes() for path in self._site_packages.glob(_RECORDS)}
        except OSError:  # it is being replaced
            return {}
