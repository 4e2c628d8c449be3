"""The hot modules of the installed program, and which of them are compiled.

A hot module is a `.py` with a `.pxd` beside it (setup.py). If there is no compiled module for this Python, the `.py` is used without a message,
several times slower.
"""

import importlib.util
from pathlib import Path
from typing import Final

import appliance

_SITE_PACKAGES: Final = Path(appliance.__file__).parents[1]
_PACKAGES: Final = ("broker", "ipc", "spark_exporter", "store")
"""The appliance's packages that have hot modules."""
_OF_THE_SDK: Final = tuple(
    f"headrace.remoting.{name}" for name in ("channel", "client_usage", "connection", "socket_reader", "turns")
)
"""The appliance compiles these, and the SDK's wheel has no `.pxd`."""


def find_hot_modules() -> list[str]:
    """The dotted names of all hot modules, sorted."""
    types = (file for package in _PACKAGES for file in (_SITE_PACKAGES / package).rglob("*.pxd"))
    sources = (file.with_suffix(".py") for file in types if file.stem != "__init__")
    names = (
        ".".join(source.relative_to(_SITE_PACKAGES).with_suffix("").parts) for source in sources if source.exists()
    )
    return sorted([*_OF_THE_SDK, *names])


def find_interpreted(names: list[str]) -> dict[str, str]:
    """The modules of these for which Python finds no compiled module, with the files that it uses instead. They are not imported."""
    files = {name: _origin_of(name) for name in names}
    return {name: file for name, file in files.items() if file.endswith(".py")}


def _origin_of(name: str) -> str:
    spec = importlib.util.find_spec(name)
    return (spec.origin if spec else None) or ""
