"""Settings that each broker has on its own: what a form that changes all of them starts with."""

from collections.abc import Mapping
from typing import Any

import msgspec


class Difference(msgspec.Struct, frozen=True):
    """A setting that is not the same on all brokers."""

    label: str
    """English, a key of the translations."""
    values: list[tuple[Any, list[str]]]
    """Each value, and the brokers that have it."""


def shared_settings(own: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The values of the settings by their names; None if brokers differ. `own`: the settings of each broker."""
    return {
        name: value if all(one[name] == value for one in own.values()) else None
        for name, value in next(iter(own.values()), {}).items()
    }


def differences(own: Mapping[str, Mapping[str, Any]], labels: Mapping[str, str]) -> list[Difference]:
    """The settings of which `shared_settings` has no value, in the order of `labels`: the label of each setting by its name."""
    found: list[Difference] = []
    for name, label in labels.items():
        brokers: dict[Any, list[str]] = {}
        for broker, settings in sorted(own.items()):
            brokers.setdefault(settings[name], []).append(broker)
        if len(brokers) > 1:
            found.append(Difference(label, list(brokers.items())))
    return found
