"""Where the packaged services have their files: headrace.service, and headrace@NAME for each further appliance.

`headrace setup`, or an administrator with `systemctl edit`, may choose another data folder: a drop-in of the unit sets HEADRACE_DATA.
packaging/maintenance/chosen-folders reads the same. Commands import this, so it loads nothing of the servers.
"""

import re
from contextlib import suppress
from pathlib import Path
from typing import Final

SERVICE_CONFIGURATION: Final = Path("/etc/headrace")
SERVICE_DATA: Final = Path("/var/lib/headrace")
UNITS: Final = Path("/etc/systemd/system")
CONFIGURATION_FILES: Final = ("appliance.toml", "broker.conf", "namesrv.conf")
_DATA: Final = re.compile(r'^Environment=.*HEADRACE_DATA=([^" \n]+)', re.MULTILINE)


def service_of(data: Path) -> str | None:
    """The installed unit with this data folder, `headrace` or `headrace@NAME`; None if no unit has it."""
    chosen = _chosen_folders()
    unit = next((unit for unit, folder in chosen.items() if folder == data), None) or _unit_by_default(data)
    if unit is None or chosen.get(unit, data) != data:
        return None
    return unit if (configuration_of(unit) / "broker.conf").exists() else None


def configuration_of(unit: str) -> Path:
    """The folder with the configuration of a unit."""
    return SERVICE_CONFIGURATION / unit.partition("@")[2]


def _unit_by_default(data: Path) -> str | None:
    if data == SERVICE_DATA:
        return "headrace"
    name = str(data).removeprefix(f"{SERVICE_DATA}-")
    return None if name == str(data) else f"headrace@{name}"


def _chosen_folders() -> dict[str, Path]:
    """The data folders that drop-ins set, by unit. The last one counts, as for systemd."""
    chosen = {}
    for path in sorted(UNITS.glob("headrace*.service.d/*.conf")):
        with suppress(OSError, UnicodeDecodeError):  # others may not be allowed to read it
            for folder in _DATA.findall(path.read_text(encoding="utf-8")):
                chosen[path.parent.name.removesuffix(".service.d")] = Path(folder)
    return chosen
