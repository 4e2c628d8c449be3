"""Access control reads whatever a file, a pattern or a request contains, and fails only as documented."""

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from broker.access.access_rules import AccessRules
from broker.access.account import Account
from broker.access.acl_editor import AccountChange, AclEditor
from broker.access.acl_file import MIN_KEY_LENGTH, parse_content, rules_of
from broker.access.acl_folder import AclFolder
from broker.access.address_pattern import EVERYTHING, parse_pattern
from broker.access.errors import BadAclFile, BadAddressPattern
from broker.access.inet_address import is_v4, is_v6, peer_address
from broker.access.permission import PUB_SUB
from headrace.protocol.acl_signature import ACCESS_KEY, SIGNATURE, is_signed, sign
from headrace.protocol.remoting_command import create_request

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
ADDRESS_TEXT = st.text("0123456789abcfxF.:*-{},/% ", max_size=40)
KEYS = (
    "accounts", "globalWhiteRemoteAddresses", "dataVersion", "accessKey", "secretKey", "whiteRemoteAddress", "admin",
    "defaultTopicPerm", "defaultGroupPerm", "topicPerms", "groupPerms", "counter", "timestamp",
)  # fmt: skip
SCALAR = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), TEXT, ADDRESS_TEXT, st.dates(),
    st.sampled_from(["account1", "secret-key", "PUB", "SUB", "PUB|SUB", "topic=PUB", "=", "10.0.0.*"]),
)  # fmt: skip
VALUE: st.SearchStrategy[Any] = st.recursive(
    SCALAR,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.one_of(st.sampled_from(KEYS), TEXT), inner, max_size=6)
    ),
    max_leaves=20,
)
PLAUSIBLE = st.fixed_dictionaries(
    {},
    optional={
        "accounts": st.lists(
            st.fixed_dictionaries(
                {"accessKey": st.sampled_from(["account1", "account2", 12345678]), "secretKey": st.sampled_from(["secret-key", 7654321])},
                optional={key: SCALAR | st.lists(SCALAR, max_size=3) for key in KEYS[5:11]},
            ),
            max_size=3,
        ),
        "globalWhiteRemoteAddresses": st.lists(ADDRESS_TEXT, max_size=3),
        "dataVersion": st.lists(VALUE, max_size=2),
    },
)  # fmt: skip


def read(data: bytes) -> None:
    """Reads an ACL file; it may only raise BadAclFile."""
    with contextlib.suppress(BadAclFile):
        for account in rules_of(parse_content(data)).accounts:
            assert min(len(account.access_key), len(account.secret_key)) >= MIN_KEY_LENGTH


@given(VALUE | PLAUSIBLE)
@pytest.mark.slow
@settings(max_examples=300)
def test_any_structure_is_read_or_refused(content: Any) -> None:
    try:
        data = yaml.safe_dump(content).encode()
    except (yaml.YAMLError, UnicodeEncodeError):
        return
    read(data)


@given(st.binary(max_size=200) | st.text("[]{}:,-#&*!|>'\"%@`? \n\tab1", max_size=80).map(str.encode))
@pytest.mark.slow
@settings(max_examples=500)
@example(b"{a: *b}")
@example(b"&a [*a]")
@example(b"!!python/object/apply:os.system [x]")
@example(b"accounts: &a [*a]")
@example(b"? ? ? ? a")
@example(b"\xff\xfea")
@example(b"a: 0x" + b"9" * 5000)
@example(b"a: " + b"9" * 5000)
@example(b"a: 99999-99-99 99:99:99")
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    read(data)


@given(ADDRESS_TEXT | TEXT, st.sampled_from(["10.0.0.1", "::1", "2001:db8::5", "no address", ""]) | ADDRESS_TEXT)
@pytest.mark.slow
@settings(max_examples=2000)
def test_any_pattern_is_read_or_refused_and_compared(pattern: str, host: str) -> None:
    try:
        parsed = parse_pattern(pattern)
    except BadAddressPattern:
        return
    matches = parsed.matches(peer_address(host))
    assert isinstance(matches, bool)
    assert not matches or pattern in EVERYTHING or is_v4(peer_address(host)) or is_v6(peer_address(host))


FIELDS = st.dictionaries(TEXT.filter(lambda key: key not in (SIGNATURE, ACCESS_KEY)), TEXT, max_size=5)


@given(FIELDS, st.binary(max_size=50), TEXT)
def test_signature_holds_for_its_request_and_secret_only(ext: dict[str, str], body: bytes, secret: str) -> None:
    fields = {**ext, ACCESS_KEY: "account1"}
    fields[SIGNATURE] = sign(secret, fields, body)
    assert is_signed(secret, fields, body)
    assert not is_signed(secret + "x", fields, body)
    assert not is_signed(secret, fields, body + b"x")
    assert not is_signed(secret, {**fields, ACCESS_KEY: "account2"}, body)


@given(st.integers(0, 400), FIELDS | st.none(), TEXT | st.none(), st.binary(max_size=100))
@pytest.mark.slow
@settings(max_examples=500)
def test_unsigned_request_is_refused_whatever_it_contains(
    code: int, ext: dict[str, str] | None, signature: str | None, body: bytes
) -> None:
    rules = AccessRules({"account1": Account("account1", "secret-key", True, PUB_SUB, PUB_SUB)})
    assert rules.check("10.0.0.1", create_request(code, ext, body))
    fields = {**(ext or {}), ACCESS_KEY: "account1"} | ({} if signature is None else {SIGNATURE: signature})
    assert rules.check("10.0.0.1", create_request(code, fields, body))


NAME = st.text("abcdef0123%_-", min_size=1, max_size=10)


@given(
    st.lists(
        st.tuples(st.sampled_from(["account1", "account2"]), TEXT, st.lists(NAME, max_size=2), ADDRESS_TEXT),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=60)
@pytest.mark.slow
def test_changes_leave_a_file_with_what_was_asked_for(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, str, list[str], str]]
) -> None:
    folder = AclFolder(tmp_path_factory.mktemp("acl"))
    editor = AclEditor(folder)
    for access_key, secret, topics, address in changes:
        before = folder.load()
        try:
            editor.put_account(
                AccountChange(access_key, secret or None, address, topics=[f"{one}=PUB" for one in topics])
            )
        except BadAclFile:
            assert folder.load().rules == before.rules
            continue
        account = folder.load().rules.accounts[access_key]
        assert not secret or account.secret_key == secret
        assert account.resources.keys() == set(topics)
        assert account.white_addresses == parse_pattern(address)
    assert sorted(path.name for path in Path(folder.home, "conf").iterdir()) in ([], ["plain_acl.yml"])
    assert json.dumps(sorted(folder.load().places)) in (
        "[]",
        '["account1"]',
        '["account2"]',
        '["account1", "account2"]',
    )
