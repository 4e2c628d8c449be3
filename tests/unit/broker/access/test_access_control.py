import asyncio
import logging
import os
from pathlib import Path

import pytest

from broker.access.access_control import AccessControl
from broker.access.access_rules import AccessRules
from broker.access.acl_editor import AccountChange
from broker.access.acl_folder import AclFolder
from broker.access.errors import BadAclFile

ACCOUNT = "accounts:\n- accessKey: {}\n  secretKey: secret-of-it\n"


@pytest.fixture
def folder(tmp_path: Path) -> AclFolder:
    folder = AclFolder(tmp_path)
    folder.plain_file.parent.mkdir()
    folder.plain_file.write_text(ACCOUNT.format("account1"))
    return folder


def names(control: AccessControl) -> list[str]:
    return list(control.rules.accounts)


def replace(path: Path, text: str) -> None:
    """As editors do it; another inode, so that the change shows even within one tick of the clock."""
    temporary = path.with_name("edited")
    temporary.write_text(text)
    os.replace(temporary, path)


async def look_twice(control: AccessControl) -> None:
    await control.look()
    await control.look()


def test_changed_file_is_read_when_it_has_settled(folder: AclFolder) -> None:
    async def main() -> None:
        control = AccessControl(folder)
        heard: list[AccessRules] = []
        control.on_change(heard.append)
        replace(folder.plain_file, ACCOUNT.format("account2"))
        await control.look()
        assert names(control) == ["account1"]
        replace(folder.plain_file, ACCOUNT.format("account3") + "- accessKey: account4\n  secretKey: '1234567'\n")
        await control.look()
        assert names(control) == ["account1"]
        await control.look()
        assert names(control) == ["account3", "account4"]
        assert (control.version, heard) == (2, [control.rules])
        await look_twice(control)
        assert (control.version, len(heard)) == (2, 1)

    asyncio.run(main())


def test_files_that_appear_and_disappear_are_noticed(folder: AclFolder) -> None:
    async def main() -> None:
        control = AccessControl(folder)
        more = folder.folder / "more.yml"
        more.parent.mkdir()
        more.write_text(ACCOUNT.format("account2"))
        await look_twice(control)
        assert set(names(control)) == {"account1", "account2"}
        more.unlink()
        folder.plain_file.unlink()
        await look_twice(control)
        assert names(control) == []

    asyncio.run(main())


def test_invalid_file_is_reported_once_and_the_rules_stay(folder: AclFolder, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        control = AccessControl(folder)
        before = control.rules
        replace(folder.plain_file, "accounts: [")
        for _ in range(5):
            await control.look()
        assert control.rules is before
        assert control.version == 1
        errors = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert [record.message.split(" error=")[0] for record in errors] == [
            "ACL not reloaded, the previous rules stay in force"
        ]
        assert str(folder.plain_file) in errors[0].message
        replace(folder.plain_file, ACCOUNT.format("account2"))
        await look_twice(control)
        assert names(control) == ["account2"]

    asyncio.run(main())


def test_unreadable_folder_is_reported_and_the_rules_stay(
    folder: AclFolder, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_folder: AclFolder) -> None:
        raise PermissionError(13, "Permission denied", "conf")

    async def main() -> None:
        control = AccessControl(folder)
        with monkeypatch.context() as patch:
            patch.setattr(AclFolder, "state", refuse)
            await look_twice(control)
        assert names(control) == ["account1"]
        assert caplog.text.count("ACL not reloaded") == 1

    asyncio.run(main())


def test_start_without_accounts_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    AccessControl(AclFolder(tmp_path))
    assert "ACL has no accounts, all requests are rejected" in caplog.text


def test_broker_with_invalid_file_does_not_start(folder: AclFolder) -> None:
    folder.plain_file.write_text("accounts: x")
    with pytest.raises(BadAclFile, match="accounts: expected a list"):
        AccessControl(folder)


def test_change_by_request_is_in_force_at_once(folder: AclFolder) -> None:
    async def main() -> None:
        control = AccessControl(folder)
        change = AccountChange("account2", "secret-2")
        await control.change(lambda editor: editor.put_account(change))
        assert names(control) == ["account1", "account2"]
        assert control.version == 2
        assert control.file_versions[folder.plain_file].counter == 1
        await look_twice(control)
        assert control.version == 2
        with pytest.raises(BadAclFile):
            await control.change(lambda editor: editor.put_account(AccountChange("account3", "short")))
        assert names(control) == ["account1", "account2"]

    asyncio.run(main())


def test_no_log_line_contains_a_secret(folder: AclFolder, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "broker")

    async def main() -> None:
        control = AccessControl(folder)
        await control.change(lambda editor: editor.put_account(AccountChange("account2", "secret-of-it")))
        for text in ("accounts: [{accessKey: account1, secretKey: [secret-of-it]}]", "a: 'secret-of-it"):
            replace(folder.plain_file, text)
            await look_twice(control)

    asyncio.run(main())
    assert len([record for record in caplog.records if record.name.startswith("broker")]) == 4
    assert "secret-of-it" not in caplog.text
