from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from appliance.configuration_reader import Sources, check_file, read_changes, read_configuration
from appliance.errors import ConfigurationError


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_default_configuration_serves_only_this_machine(tmp_path: Path) -> None:
    configuration = read_configuration(Sources(data=str(tmp_path)))
    assert configuration.host == "127.0.0.1"
    assert configuration.brokers[0].broker.broker_ip1 == "127.0.0.1"
    assert configuration.brokers[0].broker.listen_port == 10911
    assert configuration.brokers[0].nameserver_addresses == ["127.0.0.1:9876"]
    assert str(configuration.brokers[0].store_paths.root) == str(tmp_path / "store")
    assert configuration.warnings == []


def test_flag_overrides_set_and_set_overrides_the_file(tmp_path: Path) -> None:
    conf = write(tmp_path / "broker.conf", "brokerName=file\nbrokerClusterName=file\nlistenPort=1000\n")
    sources = Sources(
        data=str(tmp_path),
        broker_conf=conf,
        settings=["brokerName=set", "listenPort=2000", "heartbeatTimeout=7000"],
        port=3000,
    )
    configuration = read_configuration(sources)
    assert configuration.brokers[0].broker.broker_cluster_name == "file"
    assert configuration.brokers[0].broker.broker_name == "set"
    assert configuration.brokers[0].broker.listen_port == 3000
    assert configuration.appliance.heartbeat_timeout == 7000


def test_toml_values_keep_their_types(tmp_path: Path) -> None:
    toml = write(
        tmp_path / "appliance.toml", 'logFormat = "json"\nlogFileCount = 3\nhaEnable = false\nhost = "0.0.0.0"\n'
    )
    appliance = read_configuration(Sources(data=str(tmp_path), appliance_toml=toml)).appliance
    assert (appliance.log_format, appliance.log_file_count, appliance.ha_enable) == ("json", 3, False)


def test_unknown_broker_conf_key_gives_a_warning_with_the_closest_key(tmp_path: Path) -> None:
    text = "mapedFileSizeCommitLog=1073741824\nsendMessageThreadPoolNums=4\nwarmMapedFileEnable=true\n"
    conf = write(tmp_path / "broker.conf", text)
    configuration = read_configuration(Sources(data=str(tmp_path), broker_conf=conf))
    unknown, unused, unused_by_the_store = configuration.warnings
    assert "unknown key mapedFileSizeCommitLog (did you mean mappedFileSizeCommitLog?)" in unknown
    assert conf in unknown
    assert "sendMessageThreadPoolNums has no effect: requests are handled by one event loop" in unused
    assert "warmMapedFileEnable has no effect: pages of the log are always prefaulted" in unused_by_the_store


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("appliance.toml", "heartbeatTimeOut = 5000\n", "did you mean heartbeatTimeout?"),
        ("appliance.toml", "heartbeatTimeout = 5\n", "heartbeatTimeout=5: expected a number from 1000"),
        ("appliance.toml", 'heartbeatTimeout = "soon"\n', "heartbeatTimeout=soon: expected a whole number"),
        ("appliance.toml", 'logLevel = "loud"\n', "logLevel=loud: expected debug, info, warning or error"),
        ("appliance.toml", "[logs]\nlevel = 1\n", "unknown key logs"),
        ("appliance.toml", "host = [1]\n", "host: expected a single value"),
        ("appliance.toml", "host = \n", "line 1"),
        ("broker.conf", "listenPort=many\n", "listenPort=many: expected a whole number"),
        ("broker.conf", "flushDiskType=SOMETIMES\n", "flushDiskType=SOMETIMES: expected ASYNC_FLUSH or SYNC_FLUSH"),
        ("broker.conf", "a=\\u1", "line 1"),
    ],
)
def test_invalid_file_is_reported_in_one_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = write(tmp_path / name, text)
    with pytest.raises(ConfigurationError) as caught:
        check_file(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_invalid_value_is_reported_with_its_source(tmp_path: Path) -> None:
    conf = write(tmp_path / "broker.conf", "listenPort=10911\n")
    sources = Sources(data=str(tmp_path), broker_conf=conf, settings=["brokerPermission=all"])
    with pytest.raises(
        ConfigurationError, match=r"^--set brokerPermission: brokerPermission=all: expected a whole number$"
    ):
        read_configuration(sources)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("flushDiskTyp=SYNC_FLUSH", r"unknown key flushDiskTyp \(did you mean flushDiskType\?\)"),
        ("flushDiskType", "expected KEY=VALUE"),
    ],
)
def test_invalid_set_is_an_error(tmp_path: Path, setting: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_configuration(Sources(data=str(tmp_path), settings=[setting]))


def test_store_path_that_contradicts_the_data_folder_is_an_error(tmp_path: Path) -> None:
    conf = write(tmp_path / "broker.conf", "storePathRootDir=/srv/rocketmq/store\n")
    with pytest.raises(ConfigurationError, match="use --data /srv/rocketmq"):
        read_configuration(Sources(data=str(tmp_path), broker_conf=conf))


def test_store_path_that_agrees_with_the_data_folder_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    conf = write(tmp_path / "broker.conf", f"storePathRootDir={tmp_path}/link/store\n")
    configuration = read_configuration(Sources(data=str(tmp_path), broker_conf=conf))
    assert str(configuration.brokers[0].store_paths.root) == str(tmp_path / "store")


def test_commit_log_may_be_in_another_folder(tmp_path: Path) -> None:
    sources = Sources(data=str(tmp_path), settings=[f"storePathCommitLog={tmp_path}/fast"])
    assert str(read_configuration(sources).brokers[0].store_paths.commit_log) == f"{tmp_path}/fast"


def test_acl_files_are_below_the_broker_s_folder_unless_rocketmq_home_is_given(tmp_path: Path) -> None:
    def homes(**given: Any) -> list[str]:
        brokers = read_configuration(Sources(data=str(tmp_path), **given)).brokers
        return [broker.broker.rocketmq_home for broker in brokers]

    assert homes() == [str(tmp_path)]
    assert homes(settings=["rocketmqHome=/opt/rocketmq"]) == ["/opt/rocketmq"]
    toml = write(tmp_path / "appliance.toml", "brokers = 2\n")
    assert homes(appliance_toml=toml) == [str(tmp_path / "broker-a"), str(tmp_path / "broker-b")]


def test_host_is_bound_and_registered(tmp_path: Path) -> None:
    conf = write(tmp_path / "broker.conf", "brokerIP1=198.51.100.7\n")
    assert (
        read_configuration(Sources(data=str(tmp_path), broker_conf=conf)).brokers[0].broker.broker_ip1 == "198.51.100.7"
    )
    flagged = read_configuration(Sources(data=str(tmp_path), broker_conf=conf, host="127.0.0.2"))
    assert (flagged.host, flagged.brokers[0].broker.broker_ip1) == ("127.0.0.2", "127.0.0.2")


def test_restarted_role_adopts_only_options_that_may_change(tmp_path: Path) -> None:
    conf = write(tmp_path / "broker.conf", "fileReservedTime=72\nbrokerName=first\n")
    sources = Sources(data=str(tmp_path), broker_conf=conf, settings=["brokerPermission=4"])
    [first] = read_configuration(sources).brokers
    write(tmp_path / "broker.conf", "fileReservedTime=24\nbrokerName=second\nbrokerPermission=2\nlistenPort=1000\n")
    again = read_changes(first, sources)
    assert again.store.file_reserved_time == 24
    assert again.broker.broker_name == "first"
    assert again.broker.listen_port == 10911
    assert again.broker.broker_permission == 4
    assert again.broker_conf == tmp_path / "broker.conf"


def test_host_name_is_registered_as_its_address(tmp_path: Path) -> None:
    configuration = read_configuration(Sources(data=str(tmp_path), host="localhost"))
    assert (configuration.host, configuration.brokers[0].broker.broker_ip1) == ("localhost", "127.0.0.1")
    with pytest.raises(ConfigurationError, match=r"^host=no\.such\.host\.invalid: "):
        read_configuration(Sources(data=str(tmp_path), host="no.such.host.invalid"))


def test_wildcard_address_is_bound_but_never_registered(tmp_path: Path) -> None:
    configuration = read_configuration(Sources(data=str(tmp_path), host="0.0.0.0"))
    assert configuration.host == "0.0.0.0"
    assert configuration.brokers[0].broker.broker_ip1 != "0.0.0.0"
    assert configuration.brokers[0].nameserver_addresses == ["127.0.0.1:9876"]


def test_broker_registers_with_the_given_remote_name_servers(tmp_path: Path) -> None:
    sources = Sources(data=str(tmp_path), settings=["namesrvAddr=a:1;b:2", "nameserverEnable=false"])
    assert read_configuration(sources).brokers[0].nameserver_addresses == ["a:1", "b:2"]


def test_name_server_port_comes_from_its_file_unless_a_flag_is_given(tmp_path: Path) -> None:
    conf = write(tmp_path / "namesrv.conf", "listenPort=19876\norderMessageEnable=true\nserverWorkerThread=8\n")
    configuration = read_configuration(Sources(data=str(tmp_path), nameserver_conf=conf))
    assert configuration.appliance.nameserver_port == 19876
    assert configuration.nameserver.order_message_enable
    assert "unknown key serverWorkerThread" in configuration.warnings[0]
    flagged = read_configuration(Sources(data=str(tmp_path), nameserver_conf=conf, nameserver_port=1234))
    assert flagged.appliance.nameserver_port == 1234


@pytest.mark.parametrize(
    ("port", "nameserver_port", "message"),
    [
        (2, 9876, "would use port 0"),
        (65535, 9876, "would use port 65536"),
        (9878, 9876, "port 9876 is used by both nameserverPort and"),
    ],
)
def test_invalid_ports_are_an_error(tmp_path: Path, port: int, nameserver_port: int, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        read_configuration(Sources(data=str(tmp_path), port=port, nameserver_port=nameserver_port))


@pytest.mark.parametrize(
    ("port", "user"), [(8080, "listenPort"), (8082, "the VIP channel"), (8079, "HA"), (10911, None)]
)
def test_console_does_not_take_the_port_of_a_broker(tmp_path: Path, port: int, user: str | None) -> None:
    sources = Sources(data=str(tmp_path), port=port)
    if user is None:
        assert read_configuration(sources).console.console_port == 8080
        return
    with pytest.raises(ConfigurationError, match=f"port 8080 is used by both consolePort and {user}"):
        read_configuration(sources)
    assert read_configuration(replace(sources, no_console=True)).brokers[0].broker.listen_port == port


def test_missing_file_is_reported_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere\.conf: No such file or directory$"):
        read_configuration(Sources(data=str(tmp_path), broker_conf=str(tmp_path / "nowhere.conf")))


def test_binary_file_is_reported_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "broker.conf").write_bytes(b"a=\xff\n")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        check_file(str(tmp_path / "broker.conf"))


def test_tls_settings_come_from_the_named_file_and_tls_mode_overrides_it(tmp_path: Path) -> None:
    properties = write(tmp_path / "tls.properties", "tls.server.mode=enforcing\ntls.server.mod=x\n")
    for settings, mode in ([], "enforcing"), (["tlsMode=disabled"], "disabled"):
        sources = Sources(data=str(tmp_path), settings=[f"tlsConfigFile={properties}", *settings])
        configuration = read_configuration(sources)
        assert configuration.tls.mode == configuration.brokers[0].tls.mode == mode
        assert configuration.tls.self_made == str(tmp_path / "tls" / "self-made.pem")
        (warning,) = configuration.warnings
        assert "tls.server.mod (did you mean tls.server.mode?)" in warning
    assert read_configuration(Sources(data=str(tmp_path))).tls.mode == "permissive"


def test_tls_keys_in_broker_conf_are_refused_because_they_would_be_ignored(tmp_path: Path) -> None:
    conf = write(tmp_path / "broker.conf", "tlsMode=enforcing\n")
    with pytest.raises(ConfigurationError, match="tlsMode applies to all roles"):
        read_configuration(Sources(data=str(tmp_path), broker_conf=conf))


def test_config_check_reads_the_certificates_that_appliance_toml_names(tmp_path: Path) -> None:
    write(tmp_path / "tls.properties", "tls.server.certPath=/nowhere.pem\ntls.server.keyPath=/nowhere.key\n")
    toml = write(tmp_path / "appliance.toml", f'tlsConfigFile = "{tmp_path}/tls.properties"\n')
    with pytest.raises(ConfigurationError, match=r"tls\.server\.certPath=/nowhere\.pem: No such file or directory"):
        check_file(toml)


def test_console_account_is_whole_and_its_secret_key_is_in_no_text(tmp_path: Path) -> None:
    both = 'consoleAccessKey = "operator"\nconsoleSecretKey = "not-to-be-shown"\n'
    toml = write(tmp_path / "appliance.toml", both)
    configuration = read_configuration(Sources(data=str(tmp_path), appliance_toml=toml))
    assert configuration.console.console_secret_key == "not-to-be-shown"
    assert "not-to-be-shown" not in repr(configuration)
    for line in both.splitlines():
        half = write(tmp_path / "half.toml", line)
        with pytest.raises(
            ConfigurationError, match="consoleAccessKey and consoleSecretKey must be set together"
        ) as error:
            read_configuration(Sources(data=str(tmp_path), appliance_toml=half))
        assert "not-to-be-shown" not in str(error.value)
