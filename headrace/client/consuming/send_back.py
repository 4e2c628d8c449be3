"""SendBack: returns a message that could not be consumed to its broker, which redelivers it later or stores it as a dead letter
(client spec 3.13).

    first        CONSUMER_SEND_MSG_BACK to the master that it came from: the broker copies the record to `%RETRY%group`
    otherwise    the message itself is sent to `%RETRY%group`, to any broker
    otherwise    the caller gets the error and has to retry
"""

import logging
from typing import Final

from headrace.client.cluster.instance import ClientInstance
from headrace.client.namespace import wrap
from headrace.client.sending.prepared_message import prepare
from headrace.client.sending.producer_settings import ProducerSettings
from headrace.client.sending.sender import Sender
from headrace.errors import HeadraceError
from headrace.model import properties as names
from headrace.model.host import format_host
from headrace.model.message import Message, MessageExt
from headrace.model.names import CLIENT_INNER_PRODUCER_GROUP, retry_topic
from headrace.protocol.headers import ConsumerSendMsgBackRequestHeader
from headrace.protocol.remoting_command import create_request

logger = logging.getLogger(__name__)

TIMEOUT_MS: Final = 5_000
DEFAULT_MAX_RECONSUME_TIMES: Final = 16
_FIRST_DELAY_LEVEL: Final = 3
_ADDED_BY_RECEIVER: Final = (names.MIN_OFFSET, names.MAX_OFFSET, names.CONSUME_START_TIME)


class SendBack:
    """Sends messages back for one group. `group` includes the namespace."""

    def __init__(
        self, instance: ClientInstance, group: str, max_reconsume_times: int = DEFAULT_MAX_RECONSUME_TIMES
    ) -> None:
        self._instance = instance
        self._group = group
        self.max_reconsume_times = max_reconsume_times
        self._settings = ProducerSettings()
        self._sender = Sender(instance, CLIENT_INNER_PRODUCER_GROUP, self._settings)

    async def send(
        self, message: MessageExt, delay_level: int = 0, broker_name: str | None = None, *, timeout_ms: int = TIMEOUT_MS
    ) -> None:
        """Sends one message back. `delay_level`: -1 makes it a dead letter, with 0 the broker chooses, otherwise this level.

        `broker_name`: the broker that has the message; by default the address in the message. Raises HeadraceError if both ways failed.
        """
        topic = wrap(self._instance.config.namespace, message.topic)
        header = ConsumerSendMsgBackRequestHeader(
            message.physical_offset,
            self._group,
            delay_level,
            message.message_id,
            topic,
            self._instance.config.unit_mode,
            self.max_reconsume_times,
            broker_name,
        )
        try:
            if broker_name:
                address = await self._instance.find_broker(broker_name, topic)
            else:
                address = format_host(message.store_host)
            command = create_request(header.CODE or 0, header.to_ext())
            await self._instance.invoke(self._instance.vip(address), command, timeout_ms)
        except HeadraceError as error:
            logger.warning(
                "message not sent back, sent to the retry topic instead message=%s error=%r",
                message.message_id,
                str(error),
            )
            await self.send_anew(message, topic)

    async def send_anew(self, message: MessageExt, topic: str, reconsume_times: int | None = None) -> None:
        """Sends the message itself to the group's retry topic. Raises HeadraceError.

        `reconsume_times`: how often it has been redelivered, by default one more than before. At the maximum it becomes a dead letter.
        """
        properties = dict(message.properties)
        for name in (*_ADDED_BY_RECEIVER, names.TRANSACTION_PREPARED):
            properties.pop(name, None)
        times = message.reconsume_times + 1 if reconsume_times is None else reconsume_times
        properties[names.RETRY_TOPIC] = properties.get(names.RETRY_TOPIC, topic)
        properties[names.RECONSUME_TIME] = str(times)
        properties[names.MAX_RECONSUME_TIMES] = str(self.max_reconsume_times)
        properties.pop(names.DELAY, None)
        if times < self.max_reconsume_times:
            properties[names.DELAY] = str(_FIRST_DELAY_LEVEL + message.reconsume_times)
        properties.setdefault(names.ORIGIN_MESSAGE_ID, message.message_id)
        again = Message(retry_topic(self._group), message.body, flag=message.flag, properties=properties)
        await self._sender.send(await prepare(again, self._settings, None))
