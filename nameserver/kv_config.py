"""KvConfig: key-value pairs by namespace, the only state that a name server stores on disk.

The file is RocketMQ's `kvConfig.json`, `{"configTable":{namespace:{key:value}}}`, replaced whole after every change (remoting spec 3.8). Only
the namespace ORDER_TOPIC_CONFIG means something to RocketMQ itself; its table goes to every broker that registers.
"""

from pathlib import Path

from headrace.errors import RemoteProtocolError
from headrace.model.names import ORDER_TOPIC_NAMESPACE
from headrace.protocol import fastjson
from headrace.protocol.bodies.tables import KVTable
from nameserver.errors import KvConfigUnreadable
from nameserver.file_writer import replace_file


class KvConfig:
    """The namespaces in memory, and their file. Changes are on disk when a method returns; OSError says that they are not."""

    def __init__(self, path: Path) -> None:
        """Reads the file, if there is one. Raises KvConfigUnreadable."""
        self._path = path
        # compat: a key put without a value exists with nothing, which asking for it tells from no value in no way.
        self._namespaces: dict[str, dict[str, str | None]] = _read(path)

    def put(self, namespace: str, key: str, value: str | None) -> None:
        """Sets a key."""
        self._namespaces.setdefault(namespace, {})[key] = value
        self._write()

    def find(self, namespace: str, key: str) -> str | None:
        """The value of a key, if it has one."""
        return self._namespaces.get(namespace, {}).get(key)

    def delete(self, namespace: str, key: str) -> None:
        """Deletes a key; a missing one is not an error."""
        keys = self._namespaces.get(namespace)
        if keys is not None:
            keys.pop(key, None)
        self._write()

    def find_table(self, namespace: str) -> KVTable | None:
        """All keys of a namespace, which may be empty; None if the namespace has never existed."""
        keys = self._namespaces.get(namespace)
        return None if keys is None else KVTable({key: value for key, value in keys.items() if value is not None})

    def find_order_config(self, topic: str) -> str | None:
        """The queues of a topic in order, `broker:queues;…`, if someone has set them."""
        return self.find(ORDER_TOPIC_NAMESPACE, topic)

    def _write(self) -> None:
        replace_file(self._path, fastjson.dumps_pretty({"configTable": self._namespaces}).encode())


def _read(path: Path) -> dict[str, dict[str, str | None]]:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise KvConfigUnreadable(path, error.strerror or str(error)) from error
    if not data.strip():
        return {}
    try:
        whole = fastjson.loads(data)
    except RemoteProtocolError as error:
        raise KvConfigUnreadable(path, str(error)) from error
    tables = whole.get("configTable") if isinstance(whole, dict) else None
    if not isinstance(tables, dict) or not all(isinstance(keys, dict) for keys in tables.values()):
        raise KvConfigUnreadable(path, "configTable is missing or not a table of tables")
    return {
        str(namespace): {str(key): None if value is None else str(value) for key, value in keys.items()}
        for namespace, keys in tables.items()
    }
