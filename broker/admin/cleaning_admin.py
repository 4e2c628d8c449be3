"""Cleaning requests of operators: delete expired files and unused topics now (admin spec 4.11).

The broker deletes nothing: it requests this from the responsible process, through a counter in shared memory, and does not wait.
"""

from collections.abc import Callable, Mapping

from broker.admin.admin_handler import AdminHandler, done
from headrace.protocol.remoting_command import RemotingCommand
from headrace.protocol.request_code import RequestCode


class CleaningAdmin:
    """Forwards requests: `delete_expired()` to the housekeeper, `clean_topics()` to dispatch."""

    def __init__(self, delete_expired: Callable[[], object], clean_topics: Callable[[], object]) -> None:
        self._delete_expired = delete_expired
        self._clean_topics = clean_topics

    def handlers(self) -> Mapping[RequestCode, AdminHandler]:
        """The requests of this family."""
        return {
            RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: self.clean_queues,
            RequestCode.CLEAN_UNUSED_TOPIC: self.clean_queues,
            RequestCode.DELETE_EXPIRED_COMMITLOG: self.delete_log_files,
        }

    def clean_queues(self, command: RemotingCommand) -> RemotingCommand:
        """CLEAN_EXPIRED_CONSUMEQUEUE (306), CLEAN_UNUSED_TOPIC (316): dispatch drops queues without a topic, and entries without a log."""
        self._clean_topics()
        return done(command)

    def delete_log_files(self, command: RemotingCommand) -> RemotingCommand:
        """DELETE_EXPIRED_COMMITLOG (329): the housekeeper deletes expired files, whatever the hour."""
        self._delete_expired()
        return done(command)
