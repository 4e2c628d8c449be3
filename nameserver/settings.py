"""Settings: the current options, and changes to them by request (UPDATE_NAMESRV_CONFIG).

A change is validated completely before it is applied, then written to `configStorePath` as properties text, which can be given
to the name server as its configuration at the next start. Only options marked as changeable can be changed: no paths,
ports or access options.
"""

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Final

from headrace.errors import RemoteProtocolError
from headrace.model.option import format_value, is_changeable_by_request, key_of, keys_of, parse_value
from headrace.protocol.bodies.properties_text import decode_properties_text, encode_properties_text
from nameserver.config import NameServerConfig
from nameserver.errors import SettingsRefused
from nameserver.file_writer import replace_file

_FIXED: Final = {
    "clusterTest": "false",
    "productEnvName": "center",
    "rocketmqHome": "",
    "serverAsyncSemaphoreValue": "64",
    "serverCallbackExecutorThreads": "0",
    "serverOnewaySemaphoreValue": "256",
    "serverPooledByteBufAllocatorEnable": "false",
    "serverSelectorThreads": "1",
    "serverSocketBacklog": "1024",
    "serverSocketRcvBufSize": "0",
    "serverSocketSndBufSize": "0",
    "serverWorkerThreads": "1",
    "useEpollNativeSelector": "false",
    "writeBufferHighWaterMark": "0",
    "writeBufferLowWaterMark": "0",
}
"""The shown values of RocketMQ's options without effect here: one loop, no features, limits that are never reached."""
FORBIDDEN: Final = frozenset(
    key for key, field in keys_of(NameServerConfig).items() if not is_changeable_by_request(field)
)
"""Options that are only read from the file."""


class Settings:
    """Holds the current configuration: read `config` each time."""

    def __init__(self, config: NameServerConfig, store_path: Path) -> None:
        self.config = config
        self._store_path = store_path

    def text(self) -> str:
        """All options as properties text, with RocketMQ's that have no effect here; those that are empty are skipped."""
        return encode_properties_text(_FIXED | self._texts())

    def update(self, body: bytes) -> Mapping[str, str]:
        """Applies properties text; returns the changed options. Unknown keys are skipped.

        Raises SettingsRefused, and then nothing has changed; OSError if the change counts but could not be written.
        """
        try:
            given = decode_properties_text(body)
        except RemoteProtocolError as error:
            raise SettingsRefused(str(error)) from error
        forbidden = FORBIDDEN.union(filter(None, self.config.config_black_list.split(";")))
        if refused := sorted(forbidden & given.keys()):
            raise SettingsRefused(
                f"these options cannot be changed at run time: {', '.join(refused)}; set them in the name server's configuration file (--nameserver-conf) and restart",
                is_forbidden=True,
            )
        known = keys_of(NameServerConfig)
        try:
            values = {known[key].name: parse_value(known[key], text) for key, text in given.items() if key in known}
        except ValueError as error:
            raise SettingsRefused(str(error)) from error
        if values:
            self.config = replace(self.config, **values)
            replace_file(self._store_path, encode_properties_text(self._texts()).encode())
        return {key: text for key, text in given.items() if key in known}

    def _texts(self) -> dict[str, str]:
        values = ((key_of(field), format_value(getattr(self.config, field.name))) for field in fields(self.config))
        return {key: text for key, text in values if text}
