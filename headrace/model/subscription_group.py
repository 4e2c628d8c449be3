"""A consumer group's settings at one broker."""

from msgspec import Struct


class SubscriptionGroupConfig(Struct, frozen=True):
    """What a group may do, how often its messages are retried, and which broker slow members read from."""

    group_name: str
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    consume_broadcast_enable: bool = True
    retry_queue_count: int = 1
    retry_max_times: int = 16
    broker_id: int = 0
    which_broker_when_consume_slowly: int = 1
    notify_consumer_ids_changed_enable: bool = True
