"""The broker's configuration, shown and changed by operators (admin spec 4.12)."""

from collections.abc import Mapping

from broker.admin.admin_handler import AdminHandler, done, refuse, respond_text
from broker.live_config import LiveConfig
from headrace.errors import RemoteProtocolError
from headrace.protocol.bodies.properties_text import decode_properties_text, encode_properties_text
from headrace.protocol.headers.admin import GetBrokerConfigResponseHeader
from headrace.protocol.json_bean import encode_bean
from headrace.protocol.remoting_command import RemotingCommand
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode


class ConfigAdmin:
    """Unlike RocketMQ, which skips options that it cannot set, it makes all changes of a request or refuses it."""

    def __init__(self, live: LiveConfig) -> None:
        self._live = live

    def handlers(self) -> Mapping[RequestCode, AdminHandler]:
        """The requests of this family."""
        return {RequestCode.GET_BROKER_CONFIG: self.show, RequestCode.UPDATE_BROKER_CONFIG: self.change}

    def show(self, command: RemotingCommand) -> RemotingCommand:
        """GET_BROKER_CONFIG (26)."""
        header = GetBrokerConfigResponseHeader(encode_bean(self._live.data_version).decode())
        return respond_text(command, encode_properties_text(self._live.texts()), header.to_ext())

    def change(self, command: RemotingCommand) -> RemotingCommand:
        """UPDATE_BROKER_CONFIG (25): changeable options only; a request without a body changes nothing."""
        try:
            texts = decode_properties_text(command.body)
        except RemoteProtocolError as error:
            return refuse(command, ResponseCode.SYSTEM_ERROR, f"string2Properties error: {error}")
        forbidden = sorted(texts.keys() & self._live.black_list())
        if forbidden:
            # compat: the first sentence is RocketMQ's.
            remark = (
                f"Can not update config in black list. ({', '.join(forbidden)}: only in broker.conf, before a start)"
            )
            return refuse(command, ResponseCode.NO_PERMISSION, remark)
        problem = self._live.problem(texts)
        if problem is not None:
            return refuse(command, ResponseCode.SYSTEM_ERROR, problem)
        changed = self._live.change(texts)
        if changed and not self._live.is_kept:
            return done(
                command, "changed until the next restart: the broker was started without a broker.conf to save it in"
            )
        return done(command)
