import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from broker.access.acl_editor import AccountChange, AclEditor
from broker.access.acl_file import parse_content, read_content, read_rules, rules_of
from broker.access.acl_folder import AclFolder
from broker.access.acl_listing import list_acl
from broker.access.errors import BadAclFile
from broker.access.permission import PUB_SUB, Permission

PLAIN = """\
globalWhiteRemoteAddresses:
  - 10.10.103.*
  - 192.168.0.*

accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - topicC=SUB
    groupPerms:
      # the group should convert to retry topic
      - groupA=DENY
      - groupB=PUB|SUB
      - groupC=SUB

  - accessKey: rocketmq2
    secretKey: 12345678
    whiteRemoteAddress: 192.168.1.*
    # if it is admin, it could access all resources
    admin: true
"""
"""In the form of the file that RocketMQ is delivered with."""


def make_folder(home: Path, **files: str) -> AclFolder:
    folder = AclFolder(home)
    for name, text in files.items():
        path = folder.plain_file if name == "plain" else folder.folder / f"{name}.yml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def entry(access_key: str, **fields: str) -> str:
    return f"accounts:\n- accessKey: {access_key}\n  secretKey: secret-of-{access_key}\n" + "".join(
        f"  {key}: {value}\n" for key, value in fields.items()
    )


def test_file_of_rocketmq_is_read(tmp_path: Path) -> None:
    loaded = make_folder(tmp_path, plain=PLAIN).load()
    first, second = loaded.rules.accounts["RocketMQ"], loaded.rules.accounts["rocketmq2"]
    assert (first.secret_key, first.is_admin, second.is_admin) == ("12345678", False, True)
    assert (first.default_topic, first.default_group) == (Permission.DENY, Permission.SUB)
    assert first.resources == {
        "%RETRY%groupA": Permission.DENY, "%RETRY%groupB": PUB_SUB, "%RETRY%groupC": Permission.SUB,
        "topicA": Permission.DENY, "topicB": PUB_SUB, "topicC": Permission.SUB,
    }  # fmt: skip
    assert loaded.rules.is_white("10.10.103.7")
    assert loaded.rules.is_white("192.168.1.9", second)
    assert not loaded.rules.is_white("192.168.1.9", first)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12345678", "12345678"), ("'00012345'", "00012345"), ("010000000", "2097152"), ("true-true", "true-true"),
        ("12345678.5", "1.23456785E7"), ("1_000_000", "1000000"),
    ],
)  # fmt: skip
def test_secret_key_without_quotes_is_the_text_that_rocketmq_makes_of_it(text: str, expected: str) -> None:
    rules = rules_of(parse_content(f"accounts:\n- accessKey: account1\n  secretKey: {text}\n".encode()))
    assert rules.accounts[0].secret_key == expected


@pytest.mark.parametrize(
    ("fields", "expected"),
    [("admin: true", True), ("admin: 'TRUE'", True), ("admin: yes", True), ("admin: 1", True), ("admin: 'y'", True),
     ("admin: false", False), ("admin: ''", False), ("admin: 2", False), ("admin:", False), ("ADMIN: true", True)],
)  # fmt: skip
def test_admin_is_read_as_fastjson_reads_it(fields: str, expected: bool) -> None:
    (account,) = rules_of(parse_content((entry("account1") + f"  {fields}\n").encode())).accounts
    assert account.is_admin is expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("accounts: [", "not valid YAML in line"),
        ("- a", "expected a mapping"),
        ("[" * 51, "nested more than 50 levels deep"),
        ("- " * 51, "nested more than 50 levels deep"),
        ("accounts: x", "accounts: expected a list"),
        ("accounts: [x]", "accounts: entry 1 is not a mapping"),
        ("accounts: [{accessKey: account1}]", "accounts: entry 1: secretKey is missing or shorter than 7"),
        ("accounts: [{accessKey: short, secretKey: '1234567'}]", "accounts: entry 1: accessKey is missing or shorter"),
        (entry("account1", topicPerms="[topic]"), "account account1: Parse resource permission failed for topic:topic"),
        (entry("account1", groupPerms="[a=b=c]"), "account account1: Parse resource permission failed for group:a=b=c"),
        (entry("account1", topicPerms="a=PUB"), "account account1: topicperms: expected a list"),
        (
            entry("account1", whiteRemoteAddress="x.y"),
            "account account1: Netaddress examine Exception netaddress is x.y",
        ),
        (entry("account1", admin="maybe"), "account account1: admin: expected true or false, not 'maybe'"),
        (entry("account1", defaultTopicPerm="[PUB]"), "account account1: expected a string; put it in quotes"),
        ("globalWhiteRemoteAddresses: [1.2.3]", "Netaddress examine Exception netaddress is 1.2.3"),
        ("globalWhiteRemoteAddresses: [[]]", "expected a string"),
        ("dataVersion: [1]", "dataVersion: expected a list"),
        ("dataVersion: [{counter: x}]", "dataVersion: counter is not a whole number"),
    ],
)
def test_invalid_file_is_refused_with_its_name_and_the_reason(tmp_path: Path, text: str, said: str) -> None:
    folder = make_folder(tmp_path, plain=text)
    with pytest.raises(BadAclFile) as caught:
        folder.load()
    assert str(caught.value).startswith(f"{folder.plain_file}: ")
    assert said in str(caught.value)
    assert "secret-of" not in str(caught.value)


@pytest.mark.parametrize("text", ["[" * 100_000, "- " * 100_000, "{a: " * 100_000, "[\n" * 100_000])
def test_file_nested_without_end_is_refused(tmp_path: Path, text: str) -> None:
    # By this limit, or by that of the YAML library: 1,000 brackets since libyaml 0.2.6.
    with pytest.raises(BadAclFile, match=r"nested more than 50 levels deep|not valid YAML in line"):
        make_folder(tmp_path, plain=text).load()


def test_large_file_is_refused(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, plain="#" * (3 << 20) + "\n")
    with pytest.raises(BadAclFile, match="larger than 3145728 bytes"):
        folder.load()


def test_error_in_yaml_does_not_quote_the_file(tmp_path: Path) -> None:
    with pytest.raises(BadAclFile) as caught:
        make_folder(tmp_path, plain="accounts:\n- secretKey: 'top-secret\n  x: [").load()
    assert "top-secret" not in str(caught.value)


def test_all_files_are_read_and_the_first_definition_of_an_account_counts(tmp_path: Path) -> None:
    folder = make_folder(
        tmp_path,
        plain=entry("account1") + entry("account3").removeprefix("accounts:\n"),
        **{"a": entry("account1", admin="true"), "sub/b": entry("account2"), "sub/ignored.txt": "["},
    )
    (folder.folder / "sub" / "ignored.txt.yml").unlink()
    (folder.folder / "more.yaml").write_text(entry("account4"))
    (folder.folder / "README.txt").write_text("[")
    loaded = folder.load()
    assert loaded.rules.accounts["account1"].is_admin
    assert {key: str(path.relative_to(tmp_path)) for key, path in loaded.places.items()} == {
        "account1": "conf/acl/a.yml", "account2": "conf/acl/sub/b.yml", "account4": "conf/acl/more.yaml",
        "account3": "conf/plain_acl.yml",
    }  # fmt: skip


def test_main_file_may_have_another_name(tmp_path: Path) -> None:
    folder = AclFolder(tmp_path, "/conf/other.yml")
    folder.plain_file.parent.mkdir()
    folder.plain_file.write_text(entry("account1"))
    assert list(folder.load().rules.accounts) == ["account1"]


def test_missing_and_empty_files_have_no_rules(tmp_path: Path) -> None:
    assert make_folder(tmp_path).load().rules.accounts == {}
    loaded = make_folder(tmp_path, plain="# nothing\n").load()
    assert (loaded.rules.accounts, loaded.versions) == ({}, {})


def test_account_does_not_show_its_secret(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, plain=entry("account1"))
    assert "secret-of" not in repr(folder.load())
    assert "secret-of" not in repr(list_acl(folder))
    assert "secret-of" not in repr(AccountChange("account1", "secret-of-account1"))


# ---- changes -----------------------------------------------------------------------------------------------------------------


def test_new_account_is_added_to_the_main_file(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    change = AccountChange("account1", "secret-1", "10.1.*.*", True, "PUB", "SUB", ["a=PUB"], ["g=SUB"])
    assert AclEditor(folder).put_account(change) == folder.plain_file
    content = read_content(folder.plain_file)
    assert content["accounts"] == [
        {"accessKey": "account1", "secretKey": "secret-1", "whiteRemoteAddress": "10.1.*.*", "admin": True, "defaultTopicPerm": "PUB",
         "defaultGroupPerm": "SUB", "topicPerms": ["a=PUB"], "groupPerms": ["g=SUB"]}
    ]  # fmt: skip
    assert content["dataVersion"][0]["counter"] == 1
    assert stat.S_IMODE(folder.plain_file.stat().st_mode) == 0o600


def test_change_keeps_what_is_not_given_and_what_is_not_known(tmp_path: Path) -> None:
    text = (
        "unknown: 1\n"
        + entry("account1", defaultTopicPerm="PUB", admin="true", comment="mine")
        + "- accessKey: account2\n  secretKey: '1234567'\n"
    )
    folder = make_folder(tmp_path, a=text)
    path = folder.folder / "a.yml"
    path.chmod(0o640)
    assert AclEditor(folder).put_account(AccountChange("account1", None, topics=["a=SUB"])) == path
    content = read_content(path)
    assert content["unknown"] == 1
    assert content["accounts"][1] == {
        "accessKey": "account1", "secretKey": "secret-of-account1", "defaultTopicPerm": "PUB", "admin": False,
        "comment": "mine", "topicPerms": ["a=SUB"],
    }  # fmt: skip
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert not folder.plain_file.exists()


def test_each_change_raises_the_version_of_its_file(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, plain=entry("account1") + "dataVersion: [{counter: 41, timestamp: 5}]\n")
    editor = AclEditor(folder)
    editor.put_white_addresses(["10.0.0.1"])
    version = folder.load().versions[folder.plain_file]
    assert version.counter == 42
    assert version.timestamp > 5
    editor.remove_account("account1")
    assert folder.load().versions[folder.plain_file].counter == 43


@pytest.mark.parametrize(
    "change",
    [
        AccountChange("account1", "secret-1", topics=["a"]),
        AccountChange("account1", "secret-1", groups=["a=PUBLISH"]),
        AccountChange("account1", "secret-1", topics=[""]),
        AccountChange("account1", "secret-1", white_address="1.2.3"),
        AccountChange("short", "secret-1"),
        AccountChange("account1", "short"),
        AccountChange("account2", None),
    ],
)
def test_invalid_change_is_refused_and_writes_nothing(tmp_path: Path, change: AccountChange) -> None:
    folder = make_folder(tmp_path, plain=entry("account1"))
    before = folder.plain_file.read_bytes()
    with pytest.raises(BadAclFile):
        AclEditor(folder).put_account(change)
    assert folder.plain_file.read_bytes() == before
    assert os.listdir(folder.plain_file.parent) == ["plain_acl.yml"]


def test_account_is_removed_from_the_file_that_holds_it(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, a=entry("account1"), plain=entry("account2"))
    editor = AclEditor(folder)
    assert editor.remove_account("account1") == folder.folder / "a.yml"
    assert editor.remove_account("account1") is None
    assert list(folder.load().rules.accounts) == ["account2"]


def test_white_addresses_are_written_to_acl_files_only(tmp_path: Path) -> None:
    folder = make_folder(tmp_path, a=entry("account1"))
    outside = tmp_path / "other.yml"
    outside.write_text(entry("account2"))
    editor = AclEditor(folder)
    assert editor.put_white_addresses(["10.0.0.1"], folder.folder / "a.yml")
    assert not editor.put_white_addresses(["10.0.0.1"], outside)
    assert not editor.put_white_addresses(["10.0.0.1"], folder.folder / ".." / ".." / "other.yml")
    assert outside.read_text() == entry("account2")
    assert folder.load().rules.is_white("10.0.0.1")
    with pytest.raises(BadAclFile):
        editor.put_white_addresses(["1.2.3.{4"])


def test_files_written_by_root_belong_to_the_owner_of_the_folder(tmp_path: Path) -> None:
    owner = (12345, 12345) if os.geteuid() == 0 else (os.geteuid(), os.getegid())
    os.chown(tmp_path, *owner)
    folder = make_folder(tmp_path)
    for number in range(2):
        AclEditor(folder).put_account(AccountChange(f"account{number}", "secret-key"))
        for path in (folder.plain_file, folder.plain_file.parent):
            assert (path.stat().st_uid, path.stat().st_gid) == owner


def test_file_does_not_grow_beyond_what_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.access.acl_file.MAX_BYTES", 1000)
    folder = make_folder(tmp_path, plain=entry("account1"))
    with pytest.raises(BadAclFile, match="would be larger than 1000 bytes"):
        AclEditor(folder).put_account(AccountChange("account1", "x" * 1000))
    assert folder.plain_file.read_text() == entry("account1")


def test_changes_at_the_same_time_are_all_made(tmp_path: Path) -> None:
    names = [f"account{number}" for number in range(12)]

    def add(name: str) -> None:
        AclEditor(AclFolder(tmp_path)).put_account(AccountChange(name, "secret-key"))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(add, names))
    loaded = AclFolder(tmp_path).load()
    assert sorted(loaded.rules.accounts) == sorted(names)
    assert next(iter(loaded.versions.values())).counter == len(names)


def test_change_fails_if_another_program_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.access.acl_folder.LOCK_S", 0.0)
    folder = make_folder(tmp_path, plain=entry("account1"))
    with folder.locked(), pytest.raises(BadAclFile, match="another program is changing the ACL files"):
        AclEditor(folder).remove_account("account1")
    assert AclEditor(folder).remove_account("account1") is not None


def test_link_stays_a_link(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    target = tmp_path / "elsewhere.yml"
    target.write_text(entry("account1"))
    folder.plain_file.parent.mkdir()
    folder.plain_file.symlink_to(target)
    AclEditor(folder).put_account(AccountChange("account2", "secret-2"))
    assert folder.plain_file.is_symlink()
    assert "account2" in target.read_text()


def test_written_file_is_read_with_the_same_texts(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    for secret in ("12345678", "true-or-", "  spaces ", "ünïcödé-", "'quo\"ted:", "0x12345678", "1e1234567"):
        AclEditor(folder).put_account(AccountChange("account1", secret))
        rules = read_rules(folder.plain_file)
        assert rules is not None
        assert rules.accounts[0].secret_key == secret
