import json
from pathlib import Path

import pytest

from broker.access.access_control import AccessControl
from broker.access.acl_file import read_content
from broker.access.acl_folder import AclFolder
from headrace.protocol.acl_signature import ACCESS_KEY, SIGNATURE, sign
from support.admin_world import AdminWorld

ADMIN = """\
globalWhiteRemoteAddresses: [10.0.0.1]
accounts:
- {accessKey: operator, secretKey: operator-secret, admin: true}
- {accessKey: someone1, secretKey: someone-secret, topicPerms: [a=PUB]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> AclFolder:
    folder = AclFolder(tmp_path / "home")
    folder.plain_file.parent.mkdir(parents=True)
    folder.plain_file.write_text(ADMIN)
    return folder


@pytest.fixture
def world(tmp_path: Path, folder: AclFolder) -> AdminWorld:
    return AdminWorld(tmp_path, access=AccessControl(folder))


def test_account_is_created_and_changed(world: AdminWorld, folder: AclFolder) -> None:
    ext = {"accessKey": "account1", "secretKey": "secret-1", "topicPerms": "a=PUB,b=SUB,", "admin": "true"}
    assert world.ask(50, ext).code == 0
    assert world.ask(50, {"accessKey": "account1", "secretKey": "secret-2", "groupPerms": "g=SUB"}).code == 0
    assert read_content(folder.plain_file)["accounts"][-1] == {
        "accessKey": "account1", "secretKey": "secret-2", "admin": False, "topicPerms": ["a=PUB", "b=SUB"], "groupPerms": ["g=SUB"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("ext", "remark"),
    [
        ({"accessKey": "account1"}, "The accessKey=account1 and secretKey=null cannot be null and length should longer than 6"),
        ({"accessKey": "account1", "secretKey": "123456"}, "The accessKey=account1 and secretKey=*** cannot be null and length should longer than 6"),
        ({"topicPerms": ""}, "Parse Resource format error for .\nThe expected resource format is 'Res=Perm'. For example: topicA=SUB"),
        ({"topicPerms": "a=X"}, "Parse resource permission error for a=X.\nThe expected permissions are 'SUB' or 'PUB' or 'SUB|PUB' or 'PUB|SUB'."),
        ({"whiteRemoteAddress": "1.2.3"}, "account account1: Netaddress examine Exception netaddress is 1.2.3"),
    ],
)  # fmt: skip
def test_invalid_account_is_refused(world: AdminWorld, folder: AclFolder, ext: dict[str, str], remark: str) -> None:
    full = ext if "accessKey" in ext else {"accessKey": "account1", "secretKey": "secret-1", **ext}
    answer = world.ask(50, full)
    assert (answer.code, answer.remark) == (209, remark)
    assert folder.plain_file.read_text() == ADMIN


def test_account_is_deleted(world: AdminWorld) -> None:
    assert world.ask(51, {"accessKey": "someone1"}).code == 0
    answer = world.ask(51, {"accessKey": "someone1"})
    assert (answer.code, answer.remark) == (
        210, "The accesskey[someone1] corresponding to accessConfig has been deleted failed.",
    )  # fmt: skip


def test_white_addresses_are_replaced(world: AdminWorld, folder: AclFolder) -> None:
    assert world.ask(53, {"globalWhiteAddrs": "10.0.0.2,10.1.*"}).code == 211
    assert world.ask(53, {"globalWhiteAddrs": "10.0.0.2,10.1.*.*"}).code == 0
    assert read_content(folder.plain_file)["globalWhiteRemoteAddresses"] == ["10.0.0.2", "10.1.*.*"]
    path = str(folder.plain_file)
    assert world.ask(53, {"globalWhiteAddrs": "10.0.0.3", "aclFileFullPath": path}).code == 0
    answer = world.ask(53, {"globalWhiteAddrs": "10.0.0.4", "aclFileFullPath": "/etc/passwd"})
    assert (answer.code, answer.remark) == (211, "The globalWhiteAddresses[10.0.0.4] has been updated failed.")


def test_versions_of_the_files_are_shown(world: AdminWorld, folder: AclFolder) -> None:
    assert json.loads(world.ask(52).ext["version"])["counter"] == 0
    world.ask(51, {"accessKey": "someone1"})
    ext = world.ask(52).ext
    version = json.loads(ext["version"])
    assert version["counter"] == 1
    assert json.loads(ext["allAclFileVersion"]) == {str(folder.plain_file): version}
    assert (ext["brokerName"], ext["brokerAddr"], ext["clusterName"]) == (
        "broker-a",
        "127.0.0.1:21011",
        "DefaultCluster",
    )


def test_accounts_with_secrets_are_shown_to_admins_only(world: AdminWorld) -> None:
    def ask(access_key: str, secret: str) -> tuple[int, bytes]:
        ext = {ACCESS_KEY: access_key}
        answer = world.ask(54, {**ext, SIGNATURE: sign(secret, ext)})
        return answer.code, answer.body

    assert [ask(*one)[0] for one in (("someone1", "someone-secret"), ("operator", "wrong"), ("nobody", "x"))] == [
        16
    ] * 3
    assert world.ask(54).code == 16
    code, body = ask("operator", "operator-secret")
    assert code == 0
    assert json.loads(body) == {
        "globalWhiteAddrs": ["10.0.0.1"],
        "plainAccessConfigs": [
            {"accessKey": "operator", "admin": True, "secretKey": "operator-secret"},
            {"accessKey": "someone1", "admin": False, "secretKey": "someone-secret", "topicPerms": ["a=PUB"]},
        ],
    }


def test_requests_fail_while_acl_is_disabled(tmp_path: Path) -> None:
    world = AdminWorld(tmp_path)
    ext = {"accessKey": "account1", "secretKey": "secret-1", "globalWhiteAddrs": "10.0.0.1"}
    assert [world.ask(code, ext).code for code in range(50, 55)] == [209, 210, 1, 211, 1]
    assert "aclEnable=true" in (world.ask(50, ext).remark or "")
