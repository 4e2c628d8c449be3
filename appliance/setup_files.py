"""Writes the configuration that `headrace setup` asked for: appliance.toml, broker.conf, namesrv.conf, certificates, an account, and what the
service needs besides.

Files that exist keep every line that is not about these answers. The result is read and checked as at a start before anything is replaced.
"""

import json
import os
import pwd
import re
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from appliance.configuration_reader import Sources, read_configuration
from appliance.effective_configuration import Configuration
from appliance.errors import ApplianceError, ConfigurationError
from appliance.service_files import CONFIGURATION_FILES, SERVICE_CONFIGURATION, SERVICE_DATA, UNITS
from appliance.tls_folder import make_tls_folder
from broker.access.acl_editor import AccountChange, AclEditor
from broker.access.acl_file import MIN_KEY_LENGTH
from broker.access.acl_folder import AclFolder
from broker.broker_conf import with_values
from headrace.errors import RemoteProtocolError

SERVICE_PROGRAM: Final = Path("/usr/lib/headrace")
_DROP_IN: Final = UNITS / "headrace.service.d" / "data.conf"
_USER: Final = "headrace"
_READ_ONLY: Final = ("appliance.toml", "namesrv.conf")
_SMALL_MACHINE_MB: Final = 4096
_SMALL_LOG_FILE: Final = 268_435_456
_FILE_SIZE: Final = "mappedFileSizeCommitLog"
_LEAST_MB: Final = 512
_ACCOUNT: Final = re.compile(rf"[A-Za-z0-9._-]{{{MIN_KEY_LENGTH},64}}")
_PATH: Final = re.compile(r"[A-Za-z0-9._/-]+")


class Answers(Struct, frozen=True):
    """The five answers. `admin`: the access key of an administrator's account; empty: no accounts are checked."""

    host: str
    data: Path
    memory_mb: int
    tls: bool
    admin: str


class Written(Struct, frozen=True):
    """What was written. `secret` is the secret key of the new account; empty without one."""

    files: tuple[Path, ...]
    secret: str


def write_configuration(answers: Answers, folder: Path) -> Written:
    """Write the files below `folder`. Raises ConfigurationError, ApplianceError; then the configuration is as before."""
    if answers.memory_mb < _LEAST_MB:
        raise ConfigurationError(f"memory: {answers.memory_mb} MB: Headrace needs at least {_LEAST_MB} MB")
    if answers.admin and not _ACCOUNT.fullmatch(answers.admin):
        raise ConfigurationError(
            f"access key {answers.admin!r}: expected at least {MIN_KEY_LENGTH} characters: letters, digits, '.', '_' and '-'"
        )
    if folder == SERVICE_CONFIGURATION and not _PATH.fullmatch(str(answers.data)):
        raise ConfigurationError(
            f"data folder {str(answers.data)!r}: the service needs a path of letters, digits, '.', '_' and '-'"
        )
    if folder == SERVICE_CONFIGURATION and SERVICE_DATA in answers.data.parents:
        raise ConfigurationError(
            f"data folder {answers.data}: purging the package deletes {SERVICE_DATA}; choose that folder itself or one outside it"
        )
    toml, conf, nameserver = (folder / name for name in CONFIGURATION_FILES)
    tls = folder / "tls"
    changes = {"host": json.dumps(answers.host)}  # also a string of TOML
    if answers.tls:
        changes |= {"tlsMode": '"permissive"', "tlsConfigFile": json.dumps(str(tls / "tls.properties"))}
    options = {"aclEnable": "true" if answers.admin else "false"}
    files = [toml, conf, nameserver]
    try:
        folder.mkdir(mode=0o750, parents=True, exist_ok=True)
        is_new_tls = answers.tls and not tls.exists()
        if is_new_tls:
            make_tls_folder(tls, [answers.host] if answers.host not in ("0.0.0.0", "::") else [])
            files.append(tls)
        texts = {
            toml: with_toml_values(_read(toml), changes),
            conf: _with_options(conf, _read(conf), options),
            nameserver: _read(nameserver),
        }
        try:
            configuration = _check(answers.data, texts)
            size = _log_file_size(answers.memory_mb, configuration)
            if size is not None:
                texts[conf] = _with_options(conf, texts[conf], {_FILE_SIZE: str(size)})
                configuration = _check(answers.data, texts)
        except ConfigurationError:
            if is_new_tls:
                shutil.rmtree(tls)
            raise
        for path, text in texts.items():
            _replace(path, text)
        broker = configuration.brokers[0].broker
        acl = AclFolder(Path(broker.rocketmq_home), broker.acl_plain_file)
        secret = _add_account(acl, answers.admin) if answers.admin else ""
        if folder == SERVICE_CONFIGURATION:
            accounts = acl.plain_file
            files += _set_up_service(answers, secret, [*files, accounts] if accounts.exists() else files)
    except OSError as error:
        raise ApplianceError(f"cannot write {error.filename}: {error.strerror}{_as_root(error)}") from error
    return Written(tuple(files), secret)


def _as_root(error: OSError) -> str:
    """What to do about the error, if only the user lacks permission."""
    return "; run the command as root" if isinstance(error, PermissionError) else ""


def with_toml_values(text: str, values: Mapping[str, str]) -> str:
    """The text of an appliance.toml with these top-level values: where a key stands, also as a comment, else before the first table."""
    found = re.search(r"^\s*\[", text, re.MULTILINE)
    head, tail = (text, "") if found is None else (text[: found.start()], text[found.start() :])
    for key, value in values.items():
        line = f"{key} = {value}"
        for pattern in (rf"^{key}\s*=.*$", rf"^#\s*{key}\s*=.*$"):
            if re.search(pattern, head, re.MULTILINE):
                head = re.sub(pattern, lambda _, line=line: line, head, count=1, flags=re.MULTILINE)  # type: ignore[misc]
                break
        else:
            head += f"{'' if not head or head.endswith(chr(10)) else chr(10)}{line}\n"
    return head + tail


def _with_options(path: Path, text: str, options: Mapping[str, str]) -> str:
    """The text of the broker.conf at `path` with these options."""
    try:
        return with_values(text, options)
    except RemoteProtocolError as error:
        raise ConfigurationError(f"{path}: {error}") from error


def _log_file_size(memory_mb: int, configuration: Configuration) -> int | None:
    """The size that log files must have instead of the configured one. A store keeps the size that its files have: it starts with no other."""
    size = configuration.brokers[0].store.mapped_file_size_commit_log
    found: set[int] = set()
    for broker in configuration.brokers:
        try:
            found |= {path.stat().st_size for path in broker.store_paths.commit_log.glob("[0-9]" * 20)}
        except OSError as error:
            raise ApplianceError(f"cannot read {error.filename}: {error.strerror}{_as_root(error)}") from error
    if not found:
        # Two files are reserved ahead, and what is written to them stays in memory until it is synced.
        wanted = min(size, _SMALL_LOG_FILE) if memory_mb < _SMALL_MACHINE_MB else size
    else:
        wanted = found.pop() if len(found) == 1 else size
    return None if wanted == size else wanted


def _check(data: Path, texts: Mapping[Path, str]) -> Configuration:
    """Read the new files as at a start."""
    with tempfile.TemporaryDirectory() as folder:
        toml, conf, nameserver = (Path(folder, path.name) for path in texts)
        for path, text in zip((toml, conf, nameserver), texts.values(), strict=True):
            path.write_text(text, encoding="utf-8")
        try:
            return read_configuration(
                Sources(
                    data=str(data), broker_conf=str(conf), appliance_toml=str(toml), nameserver_conf=str(nameserver)
                )
            )
        except ConfigurationError as error:
            message = str(error)
            for path, final in zip((toml, conf, nameserver), texts, strict=True):
                message = message.replace(str(path), str(final))
            raise ConfigurationError(message) from error


def _add_account(folder: AclFolder, name: str) -> str:
    """An administrator's account with a new secret key, which is returned."""
    secret = secrets.token_urlsafe(24)
    folder.plain_file.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    AclEditor(folder).put_account(AccountChange(name, secret, is_admin=True))
    return secret


def _set_up_service(answers: Answers, secret: str, files: list[Path]) -> list[Path]:
    """What the packaged service needs: its console's credentials, its data folder, and access to the files."""
    made: list[Path] = []
    if secret:
        environment = SERVICE_CONFIGURATION / "console.env"
        _replace(environment, f"ROCKETMQ_ACCESS_KEY={answers.admin}\nROCKETMQ_SECRET_KEY={secret}\n", 0o600)
        made.append(environment)
    if answers.data == SERVICE_DATA:
        _DROP_IN.unlink(missing_ok=True)
    else:
        _DROP_IN.parent.mkdir(parents=True, exist_ok=True)
        _DROP_IN.write_text(
            f"# Written by headrace setup.\n[Service]\nEnvironment=HEADRACE_DATA={answers.data}\nReadWritePaths={answers.data}\n",
            encoding="utf-8",
        )
        made.append(_DROP_IN)
    try:
        user = pwd.getpwnam(_USER)
    except KeyError:
        return made
    answers.data.mkdir(mode=0o750, parents=True, exist_ok=True)
    if os.geteuid() == 0:
        # Accounts in a data folder are in conf, which was made above.
        folders = [path for path in (SERVICE_CONFIGURATION / "tls", answers.data / "conf") if path.is_dir()]
        for path in (answers.data, *folders, *(each for folder in folders for each in folder.rglob("*")), *files):
            # The broker saves options and accounts. The service only reads the other files.
            os.chown(path, 0 if path.name in _READ_ONLY else user.pw_uid, user.pw_gid)
    return made


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def _replace(path: Path, text: str, mode: int = 0o640) -> None:
    """Replace a file at once, with its permissions if it exists."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8") as file:
        file.write(text)
    if path.exists():
        shutil.copymode(path, temporary)
    os.replace(temporary, path)
