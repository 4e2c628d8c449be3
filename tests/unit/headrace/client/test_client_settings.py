"""Settings of clients: what is accepted, and the errors for what is not."""

from datetime import UTC, datetime, timedelta

import pytest

from headrace import ClientConfig, ConfigError, Credentials, Producer, ProducerSettings, Tls
from headrace.client.cluster.client_id import build_client_id, fresh_instance_name, local_address
from headrace.client.durations import epoch_ms, milliseconds
from headrace.client.namespace import unwrap, unwrap_any, wrap
from headrace.client.settings import client_config


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ("a:1", ("a:1",)),
        ("a:1; b:2;", ("a:1", "b:2")),
        (["a:1", "b:2;c:3"], ("a:1", "b:2", "c:3")),
        ("http://config/rocketmq/nsaddr", ("http://config/rocketmq/nsaddr",)),
        ("http://MQ_INST_1_2.host.com:80", ("MQ_INST_1_2.host.com:80",)),
    ],
)
def test_name_servers_can_be_given_as_text_or_list(given: str | list[str], taken: tuple[str, ...]) -> None:
    assert ClientConfig(given).name_server_list == taken


def test_address_of_a_hosted_instance_sets_the_namespace() -> None:
    assert ClientConfig("http://MQ_INST_1_2.host.com:80").namespace == "MQ_INST_1_2"
    assert ClientConfig("http://MQ_INST_1_2.host.com:80", namespace="own").namespace == "own"


@pytest.mark.parametrize("given", ["localhost", "a:b", ":9876", ["a:1", "b"]])
def test_invalid_name_server_address_is_rejected(given: str | list[str]) -> None:
    with pytest.raises(ConfigError, match="host:port") as caught:
        ClientConfig(given)
    assert caught.value.field == "name_servers"


def test_environment_is_read_when_no_name_server_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", "env:1")
    monkeypatch.setenv("ROCKETMQ_ACCESS_KEY", "access")
    monkeypatch.setenv("ROCKETMQ_SECRET_KEY", "secret")
    assert client_config(None).name_server_list == ("env:1",)
    assert client_config("given:1").name_server_list == ("given:1",)
    assert client_config(ClientConfig(namespace="n")).name_server_list == ("env:1",)
    assert client_config(None).credentials == Credentials("access", "secret")


def test_secrets_are_not_in_the_repr() -> None:
    assert "secret" not in repr(ClientConfig("a:1", credentials=Credentials("access", "secret", "token")))


@pytest.mark.parametrize("name", ["poll_name_server", "heartbeat", "persist_offsets", "api_timeout"])
def test_durations_are_seconds_or_timedeltas(name: str) -> None:
    config = ClientConfig("a:1", **{name: timedelta(milliseconds=1500)})  # type: ignore[arg-type]
    assert getattr(config, name) == 1.5
    for wrong in (0, -1, "x", float("inf")):
        with pytest.raises(ConfigError, match=name):
            ClientConfig("a:1", **{name: wrong})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("send_timeout", 0),
        ("attempt_timeout", -1),
        ("linger", 0),
        ("retries", -1),
        ("retries", 2.5j),
        ("compress_over", 0),
        ("compress_level", 10),
        ("max_message_size", 0),
        ("create_topic_queues", 0),
        ("batch_size", 1 << 30),
        ("compression", "ZLIB"),
    ],
)
def test_producer_setting_out_of_range_is_rejected_by_name(name: str, wrong: object) -> None:
    with pytest.raises(ConfigError, match=name):
        ProducerSettings(**{name: wrong})  # type: ignore[arg-type]


def test_unknown_settings_are_type_errors() -> None:
    with pytest.raises(TypeError):
        Producer("g", "a:1", retrys=3)  # type: ignore[call-arg]


@pytest.mark.parametrize("group", ["", " ", "no blanks", "DEFAULT_PRODUCER", "g" * 256])
def test_invalid_group_is_rejected(group: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Producer(group, "a:1")
    assert caught.value.field == "group"


def test_client_ids_are_address_instance_unit_and_stream() -> None:
    assert build_client_id("i", "1.2.3.4") == "1.2.3.4@i"
    assert build_client_id("i", "1.2.3.4", "u", stream=True) == "1.2.3.4@i@u@STREAM"
    assert build_client_id("i", "1.2.3.4", " ") == "1.2.3.4@i"
    assert build_client_id("i").startswith(local_address())
    assert len({fresh_instance_name() for _ in range(1000)}) == 1000


@pytest.mark.parametrize(
    ("name", "wrapped"),
    [
        ("T", "ns%T"),
        ("ns%T", "ns%T"),
        ("%RETRY%g", "%RETRY%ns%g"),
        ("%DLQ%g", "%DLQ%ns%g"),
        ("%RETRY%ns%g", "%RETRY%ns%g"),
        ("TBW102", "TBW102"),
        ("rmq_sys_x", "rmq_sys_x"),
        ("CID_RMQ_SYS_x", "CID_RMQ_SYS_x"),
        ("", ""),
    ],
)
def test_namespaces_are_added_to_names_and_removed(name: str, wrapped: str) -> None:
    assert wrap("ns", name) == wrapped
    assert wrap(None, name) == name
    assert unwrap("ns", wrapped) == name.replace("ns%", "")
    assert unwrap("other", wrapped) == wrapped
    assert unwrap_any(wrapped) == name.replace("ns%", "")


def test_points_in_time_are_aware_datetimes_or_milliseconds() -> None:
    assert epoch_ms(5) == 5
    assert epoch_ms(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)) == 1000
    with pytest.raises(ConfigError, match="time zone"):
        epoch_ms(datetime(2026, 1, 1))  # noqa: DTZ001 - that it is naive is the point
    assert milliseconds(timedelta(seconds=2)) == 2000
    assert milliseconds(0.0001) == 1


def test_tls_settings_are_read_from_the_environment() -> None:
    assert ClientConfig.from_env({}).tls is False
    assert ClientConfig.from_env({"ROCKETMQ_TLS_ENABLE": "false", "ROCKETMQ_TLS_CA": "/ca"}).tls is False
    assert ClientConfig.from_env({"ROCKETMQ_TLS_ENABLE": "true"}).tls == Tls()
    environment = {
        "ROCKETMQ_TLS_ENABLE": "TRUE",
        "ROCKETMQ_TLS_CA": "/ca",
        "ROCKETMQ_TLS_CERTIFICATE": "/certificate",
        "ROCKETMQ_TLS_KEY": "/key",
        "ROCKETMQ_TLS_KEY_PASSWORD": "secret",
        "ROCKETMQ_TLS_VERIFY": "false",
        "ROCKETMQ_TLS_CHECK_HOST_NAME": "false",
    }
    tls = ClientConfig.from_env(environment).tls
    assert tls == Tls("/ca", "/certificate", "/key", "secret", verify=False, check_host_name=False)
    assert "secret" not in repr(tls)
    assert ClientConfig.from_env(environment, tls=True).tls is True


@pytest.mark.parametrize(
    ("settings", "reason"),
    [({"certificate": "/c"}, "together"), ({"key": "/k"}, "together")],
)
def test_client_certificate_without_its_key_is_refused(settings: dict[str, str], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        Tls(**settings)  # type: ignore[arg-type]


def test_flags_in_the_environment_must_be_true_or_false() -> None:
    with pytest.raises(ConfigError, match="ROCKETMQ_TLS_VERIFY=no"):
        Tls.from_env({"ROCKETMQ_TLS_ENABLE": "true", "ROCKETMQ_TLS_VERIFY": "no"})
