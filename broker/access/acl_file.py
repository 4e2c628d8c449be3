"""AclFile: one YAML file with accounts, as RocketMQ 4.9 reads and writes it (remoting spec 6.7).

    globalWhiteRemoteAddresses:
    - 10.10.103.*
    accounts:
    - accessKey: RocketMQ
      secretKey: '12345678'
      whiteRemoteAddress: ''
      admin: false
      defaultTopicPerm: DENY
      defaultGroupPerm: SUB
      topicPerms:
      - topicA=DENY
      groupPerms:
      - groupA=SUB
    dataVersion:
    - counter: 1
      timestamp: 1700000000000

Like RocketMQ, a change rewrites the file without its comments; keys that we do not know stay. A file is replaced by rename, so that its readers
find the old or the new one, whole.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from broker.access.account import Account
from broker.access.address_pattern import AddressPattern, parse_pattern
from broker.access.errors import BadAclFile
from broker.access.permission import Permission, parse_permission
from headrace.model import names
from headrace.model.data_version import DataVersion
from headrace.protocol import fastjson
from store.mapped_file import sync_directory

MIN_KEY_LENGTH: Final = 7
MAX_BYTES: Final = 3 << 20  # limit: that of RocketMQ's reader; some 10,000 accounts
MAX_DEPTH: Final = 50  # limit: that of RocketMQ's reader; a file has four levels

Content = dict[Any, Any]
"""What a file holds, as YAML gives it."""


class AclFileRules(Struct, frozen=True):
    """The rules of one file."""

    accounts: tuple[Account, ...] = ()
    white_addresses: tuple[AddressPattern, ...] = ()
    data_version: DataVersion | None = None


def read_content(path: Path) -> Content:
    """What the file holds; empty if it is missing or empty. Raises BadAclFile."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise BadAclFile(f"{path}: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise BadAclFile(f"{path}: larger than {MAX_BYTES} bytes; split it into several files under conf/acl/")
    try:
        return parse_content(data)
    except BadAclFile as error:
        raise BadAclFile(f"{path}: {error}") from None


def parse_content(data: bytes) -> Content:
    """The mapping in a YAML text. Raises BadAclFile."""
    import yaml  # noqa: PLC0415  a broker without ACL does not load it

    try:
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        _check_depth(yaml.parse(data, Loader=loader))
        content = yaml.load(data, Loader=loader)  # noqa: S506  both are safe loaders
    except BadAclFile:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        # The error's own text quotes the line, which may hold a secret.
        place = f" in line {mark.line + 1}, column {mark.column + 1}" if mark is not None else ""
        raise BadAclFile(f"not valid YAML{place}") from None
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        raise BadAclFile("not valid YAML") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise BadAclFile("expected a mapping with accounts and globalWhiteRemoteAddresses")
    return content


def _check_depth(events: Iterable[Any]) -> None:
    """Raises BadAclFile for a text whose nesting would exhaust the stack of the loader, which is written in C."""
    from yaml.events import CollectionEndEvent, CollectionStartEvent  # noqa: PLC0415  as above

    depth = 0
    for event in events:
        if isinstance(event, CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise BadAclFile(f"nested more than {MAX_DEPTH} levels deep")
        elif isinstance(event, CollectionEndEvent):
            depth -= 1


def read_rules(path: Path) -> AclFileRules | None:
    """The rules in a file; None if it is empty. Raises BadAclFile, whose text names the file and the account."""
    content = read_content(path)
    try:
        return rules_of(content) if content else None
    except BadAclFile as error:
        raise BadAclFile(f"{path}: {error}") from None


def rules_of(content: Mapping[Any, Any]) -> AclFileRules:
    """The rules in what a file holds. Raises BadAclFile, whose text names the account and the key."""
    white = tuple(parse_pattern(text) for text in texts_of(content, "globalWhiteRemoteAddresses") or ())
    accounts = tuple(
        _account(entry, number) for number, entry in enumerate(_list_of(content, "accounts") or (), start=1)
    )
    return AclFileRules(accounts, white, data_version_of(content))


def data_version_of(content: Mapping[Any, Any]) -> DataVersion | None:
    """The version in a file; None if there is none. Raises BadAclFile."""
    versions = _list_of(content, "dataVersion")
    if not versions:
        return None
    first = versions[0]
    if not isinstance(first, dict):
        raise BadAclFile("dataVersion: expected a list with one mapping that has the keys counter and timestamp")
    return DataVersion(_number(first, "timestamp"), _number(first, "counter"))


def _number(entry: Mapping[Any, Any], key: str) -> int:
    value = entry.get(key, 0)
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 20:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise BadAclFile(f"dataVersion: {key} is not a whole number")
    return value


def _account(entry: Any, number: int) -> Account:
    if not isinstance(entry, dict):
        raise BadAclFile(f"accounts: entry {number} is not a mapping with accessKey and secretKey")
    # compat: fastjson finds the fields of an account whatever the case of their names, and with _ and - in them.
    fields = {plain_name(key): value for key, value in entry.items() if isinstance(key, str)}
    access_key, secret_key = (_key(fields, name, number) for name in ("accessKey", "secretKey"))
    try:
        return Account(
            access_key,
            secret_key,
            flag_of(fields.get("admin")),
            parse_permission(text_of(fields.get("defaulttopicperm"))),
            parse_permission(text_of(fields.get("defaultgroupperm"))),
            {
                **_resources(texts_of(fields, "groupperms"), names.retry_topic, "group"),
                **_resources(texts_of(fields, "topicperms"), str, "topic"),
            },
            parse_pattern(text_of(fields.get("whiteremoteaddress"))),
        )
    except BadAclFile as error:
        raise BadAclFile(f"account {access_key}: {error}") from None


def _key(fields: Mapping[str, Any], name: str, number: int) -> str:
    text = text_of(fields.get(plain_name(name)))
    if text is None or len(text) < MIN_KEY_LENGTH:
        raise BadAclFile(f"accounts: entry {number}: {name} is missing or shorter than {MIN_KEY_LENGTH} characters")
    return text


def plain_name(key: str) -> str:
    """The name of a field without what fastjson overlooks: case, `_` and `-`."""
    return key.replace("_", "").replace("-", "").lower()


def _resources(entries: Sequence[str] | None, resource_of: Callable[[str], str], kind: str) -> dict[str, Permission]:
    found = {}
    for entry in entries or ():
        parts = [part for part in entry.split("=") if part]
        if len(parts) != 2:
            raise BadAclFile(f"Parse resource permission failed for {kind}:{entry}")
        found[resource_of(parts[0].strip())] = parse_permission(parts[1])
    return found


def _list_of(content: Mapping[Any, Any], key: str) -> list[Any] | None:
    value = content.get(key)
    if value is None:
        return None
    if not isinstance(value, list):
        raise BadAclFile(f"{key}: expected a list")
    return value


def texts_of(content: Mapping[Any, Any], key: str) -> list[str] | None:
    """The texts in a list; None if there is no list. Raises BadAclFile."""
    values = _list_of(content, key)
    if values is None:
        return None
    texts = [text_of(value) for value in values]
    return [text for text in texts if text is not None]


def text_of(value: Any) -> str | None:
    """A scalar as the text that RocketMQ makes of it: numbers and booleans need no quotes. Raises BadAclFile."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (bool, int, float)):
        return fastjson.dumps(value)
    raise BadAclFile("expected a string; put it in quotes")


def flag_of(value: Any) -> bool:
    """A boolean as RocketMQ reads it. Raises BadAclFile."""
    # compat: fastjson's words for true and false, in any case; a number is true if it is 1.
    text = (text_of(value) or "").lower()
    if text in ("true", "1", "y", "t"):
        return True
    if text in ("", "null", "false", "0", "n", "f") or isinstance(value, (int, float)):
        return False
    raise BadAclFile(f"admin: expected true or false, not {value!r}")


def write_content(path: Path, content: Content) -> None:
    """Replaces the file by what is given, with its owner and permissions; a new one is private, with the owner of its folder.

    On disk when this returns. Raises BadAclFile if it would be too large to read again, and OSError; the file is as before then.
    """
    import yaml  # noqa: PLC0415  as above

    text = yaml.dump(content, Dumper=yaml.SafeDumper, default_flow_style=False, sort_keys=False, allow_unicode=True)
    if len(text.encode()) > MAX_BYTES:
        raise BadAclFile(
            f"{path}: would be larger than {MAX_BYTES} bytes; put accounts into another file under conf/acl/"
        )
    # The file behind a link is replaced, not the link.
    path = path.resolve()
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".tmp")
    try:
        temporary.unlink(missing_ok=True)  # one that a kill left, or a link: nothing is written through it
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            give_to_owner_of(path if path.exists() else path.parent, file.fileno())
        if path.exists():
            shutil.copymode(path, temporary)
        os.replace(temporary, path)
        sync_directory(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def give_to_owner_of(pattern: Path, target: int | Path) -> None:
    """Gives a file or folder the owner of another one: what root changes for the broker's user stays that user's."""
    status = pattern.stat()
    if os.geteuid() == 0 and (status.st_uid, status.st_gid) != (0, 0):
        os.chown(target, status.st_uid, status.st_gid)
