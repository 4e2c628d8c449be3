"""Refuses brokers of one appliance that use the same thing: a port, a file, an identity, or folders of which one contains the other.

A broker reads, cleans and deletes what is in its folders, so a folder of another broker may not be inside one of them. Symbolic links are followed.
"""

import itertools
import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from appliance.effective_configuration import BrokerConfiguration
from appliance.errors import ConfigurationError


class _Folder(NamedTuple):
    """A folder of a store, as it is configured and as it is on disk."""

    path: str
    real_path: str

    def __str__(self) -> str:
        return self.path if self.path == self.real_path else f"{self.path} (a link to {self.real_path})"

    def is_inside(self, other: "_Folder") -> bool:
        """Whether it is somewhere below `other`."""
        return os.path.commonpath((self.real_path, other.real_path)) == other.real_path != self.real_path


def check_conflicts(brokers: Sequence[BrokerConfiguration]) -> None:
    """Raises ConfigurationError, which names both brokers, if two of them use the same thing."""
    users: dict[tuple[str, object], str] = {}
    for broker in brokers:
        for kind, value, text in _claims(broker):
            user = users.setdefault((kind, value), broker.name)
            if user != broker.name:
                raise ConfigurationError(f"brokers {user} and {broker.name} both use {text}; give each its own")
    folders = {broker.name: _folders(broker) for broker in brokers}
    for first, second in itertools.combinations(folders, 2):
        for one, other in itertools.product(folders[first], folders[second]):
            _check_folders(first, one, second, other)


def _claims(broker: BrokerConfiguration) -> Iterator[tuple[str, object, str]]:
    """What only one broker can have, beside its folders: kind, value, and how an error names it."""
    for port in broker.listening_ports():
        yield "port", port, f"port {port}"
    options = broker.broker
    identity = options.broker_cluster_name, options.broker_name, options.broker_id
    yield "identity", identity, f"brokerName={options.broker_name} with brokerId={options.broker_id}"
    if broker.broker_conf is not None:
        yield "file", broker.broker_conf, f"the file {broker.broker_conf}"


def _folders(broker: BrokerConfiguration) -> list[_Folder]:
    """The folders of its store: the root, and those in it, which may be links or (storePathCommitLog) lie elsewhere."""
    paths = broker.store_paths
    folders = paths.root, paths.commit_log, paths.consume_queue, paths.index, paths.config
    return [_Folder(os.path.abspath(folder), os.path.realpath(folder)) for folder in folders]


def _check_folders(first: str, one: _Folder, second: str, other: _Folder) -> None:
    if one.real_path == other.real_path:
        raise ConfigurationError(f"brokers {first} and {second} both use the folder {one}; give each its own")
    for inner, inner_user, outer, outer_user in ((one, first, other, second), (other, second, one, first)):
        if inner.is_inside(outer):
            raise ConfigurationError(
                f"the folder {inner} of broker {inner_user} is inside the folder {outer} of broker {outer_user}; "
                "choose folders that do not contain each other"
            )
