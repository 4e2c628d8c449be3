"""Which topics exist, as `config/topics.json` says: records of a deleted topic are no reason to dispatch the log again."""

import json
from collections.abc import Callable

from store.paths import StorePaths

_ALWAYS_THERE = frozenset({"SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"})


def read_known_topics(paths: StorePaths) -> Callable[[bytes], bool]:
    """Answers whether a topic exists. If the file cannot be read, and its backup neither, every topic does."""
    for name in ("topics.json", "topics.json.bak"):
        try:
            table = json.loads(paths.config_file(name).read_bytes())["topicConfigTable"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if isinstance(table, dict):
            topics = frozenset(topic.encode() for topic in _ALWAYS_THERE.union(table))
            return topics.__contains__
    return lambda _topic: True
