"""The groups that the dashboard names."""

from web.pages.overview import AttentionRow, attention_rows
from web.sampling.sample import BrokerSample, ClientKind, Progress


def test_groups_without_members_or_with_dead_letters_need_attention() -> None:
    first = BrokerSample(
        "C",
        "broker-a",
        0,
        "h:1",
        progress=(
            Progress("billing", "Orders", 300, 5_000, 0.0),
            Progress("audit", "Orders", 7, 5_000, 0.0),
            Progress("idle", "Orders", 0, 0, 0.0),
            Progress("fraud-check", "Orders", 0, 0, 0.0),
            Progress("TOOLS_CONSUMER", "Orders", 9, 5_000, 0.0),
        ),
        consumers={ClientKind("audit", "JAVA", "V4_9_8", "PUSH"): 1, ClientKind("audit", "GO", "V4_9_8", "PUSH"): 1},
        dead_letters={"fraud-check": 30, "idle": 0},
    )
    second = BrokerSample("C", "broker-b", 0, "h:2", progress=(Progress("billing", "Orders", 40, 5_000, 0.0),))
    assert attention_rows([first, second]) == [
        AttentionRow("billing", 0, 340, 0),
        AttentionRow("fraud-check", 0, 0, 30),
    ]
