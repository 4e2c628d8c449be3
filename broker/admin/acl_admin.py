"""Accounts and white addresses, changed and shown by operators (admin spec 9)."""

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path

from broker.access.access_control import AccessControl
from broker.access.acl_editor import AccountChange
from broker.access.acl_file import MIN_KEY_LENGTH
from broker.access.acl_listing import list_acl
from broker.access.errors import BadAclFile
from broker.admin.admin_handler import AdminHandler, done, refuse, respond
from broker.config import BrokerConfig
from headrace.protocol import fastjson
from headrace.protocol.acl_signature import ACCESS_KEY, is_signed
from headrace.protocol.headers.acl import (
    CreateAccessConfigRequestHeader,
    DeleteAccessConfigRequestHeader,
    GetBrokerAclConfigResponseHeader,
    UpdateGlobalWhiteAddrsConfigRequestHeader,
)
from headrace.protocol.json_bean import encode_bean, to_value
from headrace.protocol.remoting_command import RemotingCommand, response_to
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode

logger = logging.getLogger(__name__)

_DISABLED = "ACL is disabled; set aclEnable=true in broker.conf and restart the broker"


class AclAdmin:
    """Changes ACL files at an operator's request, and shows their versions."""

    def __init__(self, config: BrokerConfig, control: AccessControl | None) -> None:
        """`control`: None if ACL is disabled."""
        self._config = config
        self._control = control

    def handlers(self) -> Mapping[RequestCode, AdminHandler]:
        """The requests of this family."""
        return {
            RequestCode.UPDATE_AND_CREATE_ACL_CONFIG: self.put_account,
            RequestCode.DELETE_ACL_CONFIG: self.delete_account,
            RequestCode.GET_BROKER_CLUSTER_ACL_INFO: self.version,
            RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: self.put_white_addresses,
            RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG: self.show,
        }

    async def put_account(self, command: RemotingCommand) -> RemotingCommand:
        """UPDATE_AND_CREATE_ACL_CONFIG (50). compat: the secret key is mandatory, and admin is false if it is missing."""
        header = CreateAccessConfigRequestHeader.from_ext(command.ext_fields)
        failed = ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED
        if self._control is None:
            return refuse(command, failed, _DISABLED)
        access_key, secret_key = header.access_key, header.secret_key
        if min(len(access_key), len(secret_key or "")) < MIN_KEY_LENGTH:
            # RocketMQ repeats the secret key here.
            shown = "null" if secret_key is None else "***"
            remark = f"The accessKey={access_key} and secretKey={shown} cannot be null and length should longer than 6"
            return refuse(command, failed, remark)
        change = AccountChange(
            access_key,
            secret_key,
            header.white_remote_address,
            header.admin or False,
            header.default_topic_perm,
            header.default_group_perm,
            None if header.topic_perms is None else _split(header.topic_perms),
            None if header.group_perms is None else _split(header.group_perms),
        )
        try:
            path = await self._control.change(lambda editor: editor.put_account(change))
        except BadAclFile as error:
            return refuse(command, failed, str(error))
        logger.info("ACL account updated access_key=%s path=%s", access_key, path)
        return done(command)

    async def delete_account(self, command: RemotingCommand) -> RemotingCommand:
        """DELETE_ACL_CONFIG (51)."""
        access_key = DeleteAccessConfigRequestHeader.from_ext(command.ext_fields).access_key
        failed = ResponseCode.DELETE_ACL_CONFIG_FAILED
        if self._control is None:
            return refuse(command, failed, _DISABLED)
        try:
            path = await self._control.change(lambda editor: editor.remove_account(access_key))
        except BadAclFile as error:
            return refuse(command, failed, str(error))
        if path is None:
            remark = f"The accesskey[{access_key}] corresponding to accessConfig has been deleted failed."
            return refuse(command, failed, remark)
        logger.info("ACL account deleted access_key=%s path=%s", access_key, path)
        return done(command)

    async def put_white_addresses(self, command: RemotingCommand) -> RemotingCommand:
        """UPDATE_GLOBAL_WHITE_ADDRS_CONFIG (53). Unlike RocketMQ it refuses invalid patterns, which would make the file unreadable."""
        header = UpdateGlobalWhiteAddrsConfigRequestHeader.from_ext(command.ext_fields)
        failed = ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED
        if self._control is None:
            return refuse(command, failed, _DISABLED)
        patterns = _split(header.global_white_addrs)
        path = Path(header.acl_file_full_path) if header.acl_file_full_path else None
        try:
            is_done = await self._control.change(lambda editor: editor.put_white_addresses(patterns, path))
        except BadAclFile as error:
            return refuse(command, failed, str(error))
        if not is_done:
            remark = f"The globalWhiteAddresses[{header.global_white_addrs}] has been updated failed."
            return refuse(command, failed, remark)
        logger.info("ACL global white addresses updated path=%s count=%d", path or "default", len(patterns))
        return done(command)

    def version(self, command: RemotingCommand) -> RemotingCommand:
        """GET_BROKER_CLUSTER_ACL_INFO (52). RocketMQ gives no answer if ACL is disabled."""
        if self._control is None:
            return refuse(command, ResponseCode.SYSTEM_ERROR, _DISABLED)
        files = {str(path): to_value(version) for path, version in self._control.file_versions.items()}
        header = GetBrokerAclConfigResponseHeader(
            encode_bean(self._control.plain_version).decode(),
            self._config.broker_name,
            self._config.address,
            self._config.broker_cluster_name,
            fastjson.dumps(files),
        )
        return response_to(command, ResponseCode.SUCCESS, ext=header.to_ext())

    async def show(self, command: RemotingCommand) -> RemotingCommand:
        """GET_BROKER_CLUSTER_ACL_CONFIG (54): all accounts with their secret keys. Only for requests signed by an admin.

        RocketMQ 4.9.8 refuses it to everybody, older releases answer it to every account.
        """
        if self._control is None:
            return refuse(command, ResponseCode.SYSTEM_ERROR, _DISABLED)
        account = self._control.rules.account_for(command.ext.get(ACCESS_KEY, ""))
        if account is None or not account.is_admin or not is_signed(account.secret_key, command.ext, command.body):
            remark = f"request code={command.code:d} shows secret keys and must be signed by an admin account"
            return refuse(command, ResponseCode.NO_PERMISSION, remark)
        try:
            return respond(command, await asyncio.to_thread(list_acl, self._control.folder))
        except BadAclFile as error:
            return refuse(command, ResponseCode.SYSTEM_ERROR, str(error))


def _split(text: str) -> list[str]:
    """The parts between commas. compat: Java drops empty ones at the end, but not the only one."""
    parts = text.split(",")
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    return [] if parts == [""] and text else parts
