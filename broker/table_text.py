"""The JSON text of a table of settings, for files and responses. The text of each entry is created only once.

The same as `encode_pretty` and `encode` of the protocol's TopicConfigSerializeWrapper and SubscriptionGroupWrapper (a test holds them together),
in a tenth of the time: a broker with 5,000 topics would else stand still for 60 ms at every registration and for every topic that is made.
Entries are frozen, so a text never goes stale.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from headrace.model.data_version import DataVersion
from headrace.model.subscription_group import SubscriptionGroupConfig
from headrace.model.topic_config import TopicConfig
from headrace.protocol import fastjson
from headrace.protocol.json_bean import to_value

Entry = TopicConfig | SubscriptionGroupConfig

TOPICS: Final = "topicConfigTable"
GROUPS: Final = "subscriptionGroupTable"

_KEPT: Final = 131_072  # limit: twice the rows of the queue table, and so more than the topics there can be; some 40 MB


def file_text(key: str, table: Mapping[str, Entry], version: DataVersion) -> str:
    """The table under this key as its file has it."""
    entries = [f"\n\t\t{_name(name)}:{_pretty(entry)}" for name, entry in table.items()]
    head = fastjson.dumps_pretty({"dataVersion": to_value(version)}).removesuffix("\n}")
    body = f"{{{','.join(entries)}\n\t}}" if entries else "{}"
    return f'{head},\n\t"{key}":{body}\n}}'


def wire_text(key: str, table: Mapping[str, Entry], version: DataVersion) -> str:
    """The table under this key as answers have it."""
    entries = [f"{_name(name)}:{_compact(entry)}" for name, entry in table.items()]
    return f'{{"dataVersion":{fastjson.dumps(to_value(version))},"{key}":{{{",".join(entries)}}}}}'


@lru_cache(_KEPT)
def _name(name: str) -> str:
    return fastjson.quote(name)


@lru_cache(_KEPT)
def _pretty(entry: Entry) -> str:
    return fastjson.dumps_pretty(to_value(entry)).replace("\n", "\n\t\t")


@lru_cache(_KEPT)
def _compact(entry: Entry) -> str:
    return fastjson.dumps(to_value(entry))
