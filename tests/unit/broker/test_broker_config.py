"""The broker's options: RocketMQ's keys are all accounted for, and what is not given fills itself in."""

import re

import pytest

from broker.config import ACCEPTED_UNUSED as BROKER_UNUSED
from broker.config import BrokerConfig
from headrace.model.option import from_mapping, help_of, keys_of
from store.config import ACCEPTED_UNUSED as STORE_UNUSED
from store.config import StoreConfig
from support import golden


def keys_of_apaches_broker() -> set[str]:
    """Every key in a 4.9 broker's answer to GET_BROKER_CONFIG."""
    for line in golden.frames("manage"):
        body = line.get("bytes") or b""
        if b"shortPollingTimeMills=" in body and line["direction"] == "<":
            return set(re.findall(r"^([A-Za-z0-9]+)=", body.split(b"}", 1)[1].decode(), re.MULTILINE))
    raise AssertionError("the golden scenario has no answer to GET_BROKER_CONFIG")


def test_every_key_of_a_java_broker_is_used_or_accepted_with_a_reason() -> None:
    ours = keys_of(BrokerConfig).keys() | keys_of(StoreConfig).keys() | BROKER_UNUSED.keys() | STORE_UNUSED.keys()
    # The first key stands on the line of the header, behind its brace.
    missing = keys_of_apaches_broker() - ours
    assert not missing


def test_no_key_is_listed_as_both_used_and_unused() -> None:
    used = keys_of(BrokerConfig).keys() | keys_of(StoreConfig).keys()
    assert not used & (BROKER_UNUSED.keys() | STORE_UNUSED.keys())
    assert not BROKER_UNUSED.keys() & STORE_UNUSED.keys()
    assert not keys_of(BrokerConfig).keys() & keys_of(StoreConfig).keys()


def test_every_option_is_described() -> None:
    for key, field in keys_of(BrokerConfig).items():
        assert help_of(field).endswith("."), key


def test_defaults_equal_those_of_a_java_broker() -> None:
    config = BrokerConfig(broker_name="b", broker_ip1="10.0.0.1")
    assert config.broker_cluster_name == "DefaultCluster"
    assert (config.listen_port, config.fast_port) == (10911, 10909)
    assert config.default_topic_queue_nums == 8
    assert config.auto_create_topic_enable
    assert config.auto_create_subscription_group
    assert config.broker_permission == 6
    assert config.transaction_check_max == 15


def test_broker_conf_of_a_java_broker_is_read() -> None:
    text = {
        "brokerIP1": "10.0.0.7",
        "listenPort": "20911",
        "brokerClusterName": "C",
        "brokerName": "b",
        "nonsense": "1",
    }
    config = from_mapping(BrokerConfig, text)
    assert config.address == "10.0.0.7:20911"
    assert config.ha_address == "10.0.0.7:20912"
    assert config.reply_topic == "C_REPLY_TOPIC"


def test_missing_names_and_addresses_are_filled_in() -> None:
    config = BrokerConfig()
    assert config.broker_name
    assert re.fullmatch(r"\d+\.\d+\.\d+\.\d+", config.broker_ip1)
    assert config.broker_ip2 == config.broker_ip1


def test_name_servers_are_split_and_deduplicated() -> None:
    config = BrokerConfig(namesrv_addr="a:9876; b:9876;;a:9876")
    assert config.name_servers == ("a:9876", "b:9876")
    assert BrokerConfig().name_servers == ()


@pytest.mark.parametrize(("given", "seconds"), [(30_000, 30), (1, 10), (3_600_000, 60)])
def test_time_between_registrations_is_bounded(given: int, seconds: float) -> None:
    assert BrokerConfig(register_name_server_period=given).register_period_s == seconds


@pytest.mark.parametrize("text", ["localhost", "10.0.0.1/8"])
def test_invalid_admin_allow_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="adminAllow="):
        from_mapping(BrokerConfig, {"adminAllow": text})
