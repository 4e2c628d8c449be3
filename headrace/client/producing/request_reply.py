"""Request and reply: a message that is answered by the program that consumes it (client spec 2.12).

The one who asks sends an ordinary message that says who it is; the one who answers sends `reply_to(request, body)` with any producer, and the
broker hands that to the one who asked. The asking producer must be known, by heartbeat, to the broker to which the answer goes.
"""

import uuid

from headrace.errors import MessageInvalid
from headrace.model import names
from headrace.model import properties as property_names
from headrace.model.message import Message, MessageExt


def request_of(message: Message, client_id: str, timeout_ms: int) -> tuple[str, Message]:
    """A copy of the message that asks for a reply, and its correlation id."""
    correlation_id = str(uuid.uuid4())
    asking = Message(message.topic, message.body, flag=message.flag, properties=message.properties)
    asking.properties[property_names.CORRELATION_ID] = correlation_id
    asking.properties[property_names.REPLY_TO_CLIENT] = client_id
    asking.properties[property_names.TTL] = str(timeout_ms)
    return correlation_id, asking


def reply_to(request: MessageExt, body: bytes | str) -> Message:
    """The answer to a request that was consumed, to be sent with any producer.

        await producer.send(reply_to(request, b"42"))

    Raises MessageInvalid if the message asks for no reply.
    """
    properties = request.properties
    cluster = properties.get(property_names.CLUSTER)
    if not cluster or property_names.CORRELATION_ID not in properties:
        raise MessageInvalid(f"the message {request.message_id} asks for no reply")
    copied = (property_names.CORRELATION_ID, property_names.REPLY_TO_CLIENT, property_names.TTL)
    answer = {name: properties[name] for name in copied if name in properties}
    answer[property_names.MSG_TYPE] = property_names.REPLY_MESSAGE_TYPE
    return Message(names.reply_topic(cluster), body, properties=answer)
