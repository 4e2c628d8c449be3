"""Request and reply: a message that its consumer answers (client spec 2.12).

The requester sends an ordinary message with its client id; the consumer sends `reply_to(request, body)` with any producer, and the broker
pushes that to the requester. The broker that receives the reply must know the requester from a heartbeat.
"""

import uuid

from headrace.errors import MessageInvalid
from headrace.model import names
from headrace.model import properties as property_names
from headrace.model.message import Message, MessageExt


def request_of(message: Message, client_id: str, timeout_ms: int) -> tuple[str, Message]:
    """Returns a copy of the message that asks for a reply, and its correlation id."""
    correlation_id = str(uuid.uuid4())
    asking = Message(message.topic, message.body, flag=message.flag, properties=message.properties)
    asking.properties[property_names.CORRELATION_ID] = correlation_id
    asking.properties[property_names.REPLY_TO_CLIENT] = client_id
    asking.properties[property_names.TTL] = str(timeout_ms)
    return correlation_id, asking


def reply_to(request: MessageExt, body: bytes | str) -> Message:
    """Returns the reply to a request that was consumed; send it with any producer.

        await producer.send(reply_to(request, b"42"))

    Raises MessageInvalid if the message does not ask for a reply.
    """
    properties = request.properties
    cluster = properties.get(property_names.CLUSTER)
    if not cluster or property_names.CORRELATION_ID not in properties:
        raise MessageInvalid(
            f"the message {request.message_id} does not ask for a reply: it was not sent with request()"
        )
    copied = (property_names.CORRELATION_ID, property_names.REPLY_TO_CLIENT, property_names.TTL)
    answer = {name: properties[name] for name in copied if name in properties}
    answer[property_names.MSG_TYPE] = property_names.REPLY_MESSAGE_TYPE
    return Message(names.reply_topic(cluster), body, properties=answer)
