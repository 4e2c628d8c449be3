"""The quick texts of the tables are those of the protocol."""

from broker.table_text import GROUPS, TOPICS, file_text, wire_text
from headrace.model.data_version import DataVersion
from headrace.model.subscription_group import SubscriptionGroupConfig
from headrace.model.topic_config import TopicConfig, TopicFilterType
from headrace.protocol.bodies.tables import SubscriptionGroupWrapper, TopicConfigSerializeWrapper

VERSION = DataVersion(1700000000000, 3)


def test_topic_table_text_equals_the_protocols() -> None:
    topics = {
        "A": TopicConfig("A"),
        "%RETRY%g": TopicConfig("%RETRY%g", 1, 2, 7, TopicFilterType.MULTI_TAG, 2, order=True),
    }
    for table in (topics, {}):
        wrapper = TopicConfigSerializeWrapper(VERSION, table)
        assert file_text(TOPICS, table, VERSION) == wrapper.encode_pretty()
        assert wire_text(TOPICS, table, VERSION).encode() == wrapper.encode()


def test_group_table_text_equals_the_protocols() -> None:
    groups = {
        "g": SubscriptionGroupConfig("g"),
        'odd "ü\n': SubscriptionGroupConfig('odd "ü\n', consume_enable=False, retry_max_times=3, broker_id=7),
    }
    for table in (groups, {}):
        wrapper = SubscriptionGroupWrapper(VERSION, table)
        assert file_text(GROUPS, table, VERSION) == wrapper.encode_pretty()
        assert wire_text(GROUPS, table, VERSION).encode() == wrapper.encode()
