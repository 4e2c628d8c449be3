"""The accounts of all ACL files as they are written there, for whoever shows or edits them."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from broker.access.acl_file import flag_of, plain_name, read_content, rules_of, text_of, texts_of
from broker.access.acl_folder import AclFolder
from headrace.protocol.bodies.acl import AclConfig, PlainAccessConfig


def list_acl(folder: AclFolder) -> AclConfig:
    """What all files hold together; of an access key that several define only the first. Raises BadAclFile."""
    found = AclConfig()
    seen: set[str] = set()
    for _, content in _contents(folder):
        found.global_white_addrs.extend(texts_of(content, "globalWhiteRemoteAddresses") or ())
        for entry in content.get("accounts") or ():
            account = _listed(entry)
            if account.access_key not in seen:
                seen.add(account.access_key)
                found.plain_access_configs.append(account)
    return found


def _contents(folder: AclFolder) -> Iterator[tuple[Path, Mapping[Any, Any]]]:
    for path in folder.files():
        content = read_content(path)
        rules_of(content)
        yield path, content


def _listed(entry: Mapping[Any, Any]) -> PlainAccessConfig:
    fields = {plain_name(key): value for key, value in entry.items() if isinstance(key, str)}
    return PlainAccessConfig(
        text_of(fields.get("accesskey")) or "",
        text_of(fields.get("secretkey")),
        text_of(fields.get("whiteremoteaddress")),
        flag_of(fields.get("admin")),
        text_of(fields.get("defaulttopicperm")),
        text_of(fields.get("defaultgroupperm")),
        texts_of(fields, "topicperms"),
        texts_of(fields, "groupperms"),
    )
