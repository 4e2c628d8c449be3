"""A RocketMQ 5 store with pending timers: delivered ones are not delivered again, pending ones are."""

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from support import golden
from support.appliance import HEADRACE
from support.crash import records

pytestmark = pytest.mark.slow


def test_only_pending_timers_of_a_rocketmq_5_store_are_delivered(tmp_path: Path) -> None:
    head, *lines = golden.expected("v5")
    store = golden.unpack("v5", tmp_path)
    before = [line for line in lines if line["kind"] == "record"]
    waited = {one["properties"]["UNIQ_KEY"] for one in before if one["topic"] == "rmq_sys_wheel_timer"}
    delivered = {one["properties"]["UNIQ_KEY"] for one in before if one["topic"] == "Timed"}
    assert (len(waited), len(waited - delivered)) == (15, 5)
    known = ("mappedFileSizeCommitLog", "maxMessageSize", "mappedFileSizeConsumeQueue", "maxHashSlotNum", "maxIndexNum")
    settings = [f"--set={key}={head['settings'][key]}" for key in known]
    said = subprocess.run(
        [str(HEADRACE), "store", "deliver-timers", str(store), *settings], check=True, capture_output=True, text=True
    )
    assert "5 messages delivered" in said.stdout
    assert Counter(one["properties"]["UNIQ_KEY"] for one in records(store, "Timed")) == Counter(waited | delivered)
