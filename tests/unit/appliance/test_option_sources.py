"""Where the console shows the options of the appliance's own servers to come from."""

from pathlib import Path

from appliance.configuration_reader import Sources, read_configuration
from appliance.option_sources import own_servers
from web.config import OptionOrigin


def test_each_option_has_its_source(tmp_path: Path) -> None:
    conf, of_name_server = tmp_path / "broker.conf", tmp_path / "namesrv.conf"
    conf.write_text("fileReservedTime=48\ndeleteWhen=05\n")
    of_name_server.write_text("brokerChannelExpiredTime=9000\n")
    sources = Sources(
        data=str(tmp_path),
        broker_conf=str(conf),
        nameserver_conf=str(of_name_server),
        settings=["deleteWhen=06"],
        nameserver_port=20001,
        port=20011,
        host="127.0.0.1",
    )
    servers = own_servers(read_configuration(sources))
    broker = servers["127.0.0.1:20011"]
    assert broker.broker_conf == str(conf)
    found = {key: (broker.options[key].origin, broker.options[key].source) for key in broker.options}
    assert found["fileReservedTime"] == (OptionOrigin.FILE, str(conf))
    assert found["deleteWhen"] == (OptionOrigin.COMMAND_LINE, "--set deleteWhen")
    assert found["listenPort"] == (OptionOrigin.COMMAND_LINE, "--port")
    assert found["namesrvAddr"] == (OptionOrigin.DERIVED, "nameserverPort")
    assert found["brokerClusterName"] == (OptionOrigin.DEFAULT, "")
    assert (broker.options["deleteWhen"].value, broker.options["listenPort"].is_changeable) == ("06", False)
    name_server = servers["127.0.0.1:20001"].options["brokerChannelExpiredTime"]
    assert (name_server.value, name_server.origin, name_server.source) == (
        "9000",
        OptionOrigin.FILE,
        str(of_name_server),
    )


def test_listed_brokers_have_their_own_sources(tmp_path: Path) -> None:
    toml = tmp_path / "appliance.toml"
    toml.write_text('[[broker]]\nname = "a"\nport = 20011\n[[broker]]\nname = "b"\nfileReservedTime = 5\n')
    servers = own_servers(read_configuration(Sources(data=str(tmp_path), appliance_toml=str(toml), host="127.0.0.1")))
    first, second = servers["127.0.0.1:20011"].options, servers["127.0.0.1:20021"].options
    assert first["fileReservedTime"].origin is OptionOrigin.DEFAULT
    assert (second["fileReservedTime"].origin, second["fileReservedTime"].source) == (
        OptionOrigin.FILE,
        f"{toml}: [[broker]] b",
    )
    assert second["listenPort"].origin is OptionOrigin.DERIVED
