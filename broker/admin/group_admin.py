"""Consumer groups: created, changed, deleted and listed by operators (admin spec 4.2)."""

import logging
from collections.abc import Mapping

from broker.admin.admin_handler import AdminHandler, done, refuse, respond_text
from broker.clients.groups import GroupTable
from broker.clients.offsets import OffsetTable
from headrace.model.subscription_group import SubscriptionGroupConfig
from headrace.protocol.headers.admin import DeleteSubscriptionGroupRequestHeader
from headrace.protocol.json_bean import decode_bean
from headrace.protocol.remoting_command import RemotingCommand
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode

logger = logging.getLogger(__name__)


class GroupAdmin:
    """Changes the group table at an operator's request."""

    def __init__(self, groups: GroupTable, offsets: OffsetTable) -> None:
        self._groups = groups
        self._offsets = offsets

    def handlers(self) -> Mapping[RequestCode, AdminHandler]:
        """The requests of this family."""
        return {
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: self.put,
            RequestCode.DELETE_SUBSCRIPTIONGROUP: self.delete,
            RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: self.all,
        }

    def put(self, command: RemotingCommand) -> RemotingCommand:
        """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (200). Missing fields have their defaults."""
        if command.body:  # compat: a request without a body is accepted and changes nothing
            config = decode_bean(SubscriptionGroupConfig, command.body, untrusted=True)
            if not config.group_name.strip():
                return refuse(command, ResponseCode.SYSTEM_ERROR, "groupName is empty; set it to the group to delete")
            self._groups.put(config)
        return done(command)

    def delete(self, command: RemotingCommand) -> RemotingCommand:
        """DELETE_SUBSCRIPTIONGROUP (207), on request with the group's offsets."""
        header = DeleteSubscriptionGroupRequestHeader.from_ext(command.ext_fields)
        if not self._groups.delete(header.group_name):
            logger.info("group to delete not found group=%s", header.group_name)
        # compat: tools of RocketMQ 5 call the field cleanOffset.
        if header.remove_offset or command.ext.get("cleanOffset", "").lower() == "true":
            self._offsets.remove_group(header.group_name)
        return done(command)

    def all(self, command: RemotingCommand) -> RemotingCommand:
        """GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201)."""
        return respond_text(command, self._groups.wire_text())
