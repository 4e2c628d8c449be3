"""AclAdmission: admits connections while access control is on, so that each request is checked against the rules in force.

A peer with a global white address may do everything, as in RocketMQ. Every other peer has to sign each request: hot paths check sends and
pulls (`HotAccess`), `check` all others and whatever a hot path does not take. An account that is an admin may administer the broker from everywhere,
other accounts only from where it is allowed without an account as well (`AdminGate`), and accounts and white addresses nowhere: who may change those may
do everything.
"""

from typing import Final
from weakref import WeakSet

from msgspec import Struct
from msgspec.structs import replace

from broker.access.access_control import AccessControl
from broker.access.access_rules import AccessRules
from broker.access.inet_address import peer_address
from broker.connections.hot_access import HotAccess
from headrace.protocol.acl_signature import ACCESS_KEY
from headrace.protocol.remoting_command import RemotingCommand, SerializeType, response_to
from headrace.protocol.request_code import RequestCode
from headrace.protocol.response_code import ResponseCode
from headrace.remoting.admin_gate import AdminGate
from headrace.remoting.admission import OPEN, Admission
from headrace.remoting.connection import Connection

_ACL_CHANGES: Final = frozenset(
    {
        RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,
        RequestCode.DELETE_ACL_CONFIG,
        RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
    }
)


class AclAdmission:
    """One for all connections of a broker."""

    def __init__(self, control: AccessControl, gate: AdminGate) -> None:
        self._control = control
        self._gate = gate
        self._hot = HotAccess(control.rules)
        self._white: WeakSet[Connection] = WeakSet()
        control.on_change(self._rules_changed)

    def admit(self, connection: Connection) -> Admission:
        """What the peer of the connection may do under the rules in force."""
        host = peer_address(connection.remote_address[0])
        if self._control.rules.is_white(host):
            self._white.add(connection)
            return OPEN
        return Admission(check=_Peer(self, host).check, checks_hot_requests=False, signatures=self._hot)

    def check(self, connection: Connection, command: RemotingCommand, host: str) -> RemotingCommand | None:
        """The refusal of a request of the peer at `host`; None if it is allowed."""
        rules = self._control.rules
        remark = rules.check(host, command)
        if remark is not None:
            answer = response_to(command, ResponseCode.SYSTEM_ERROR, remark)
            # compat: a refusal is an exception in RocketMQ, whose answer is always JSON (remoting spec 6.6).
            answer.serialize_type = SerializeType.JSON
            return answer
        if rules.is_white(host):  # since the rules have changed
            connection.admission = self.admit(connection)
            return None
        access_key = command.ext[ACCESS_KEY]
        if connection.admission.account != access_key:
            connection.admission = replace(connection.admission, account=access_key)
        account = rules.account_for(access_key)
        if account is not None and account.is_admin:
            return None
        if command.code in _ACL_CHANGES:
            # compat: RocketMQ lets every account change accounts, its own included.
            remark = f"request code={command.code:d} refused: it changes access rights and must be signed by an admin account"
            return response_to(command, ResponseCode.NO_PERMISSION, remark)
        if self._gate.may_make(connection, command.code):
            return None
        return self._gate.refuse(connection, command)

    def _rules_changed(self, rules: AccessRules) -> None:
        self._hot.replace_rules(rules)
        # Other peers find out about a new white address with their next request.
        white, self._white = self._white, WeakSet()
        for connection in white:
            connection.admission = self.admit(connection)


class _Peer(Struct, frozen=True):
    """The peer of one connection, with the text of its address as the rules compare it."""

    admission: AclAdmission
    host: str

    def check(self, connection: Connection, command: RemotingCommand) -> RemotingCommand | None:
        """As `AclAdmission.check`."""
        return self.admission.check(connection, command, self.host)
