"""docs/operations/limits.md lists every limit that is counted, with its option and default."""

import re
from pathlib import Path

from broker.config import BrokerConfig
from broker.statistics.counters import LIMITS
from headrace.model.connection_limits import OPTIONS
from headrace.model.option import keys_of
from nameserver.config import NameServerConfig

PAGE = Path(__file__).resolve().parents[3] / "docs" / "operations" / "limits.md"


def test_page_has_each_limit_of_the_broker_with_its_default() -> None:
    rows = re.findall(r"^\| [^|]+ \| `(\w+)` \| (\d+)[ |:]", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    fields = keys_of(BrokerConfig)
    assert rows == [(option, str(fields[option].default)) for option in LIMITS]


def test_name_server_has_the_same_limits_of_connections() -> None:
    broker, name_server = keys_of(BrokerConfig), keys_of(NameServerConfig)
    assert [name_server[option].default for option in OPTIONS] == [broker[option].default for option in OPTIONS]
