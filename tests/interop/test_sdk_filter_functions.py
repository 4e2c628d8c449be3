"""Filter functions used by the Python client at an appliance that has one installed."""

from collections.abc import Iterator

import pytest

from headrace import ConfigError, FilterFunction, LitePullConsumer, StartFrom
from store.filter.python.functions import FunctionFolder
from support.appliance import Appliance
from support.consuming import Gathered, config_for, create_topic, eventually, push, send
from support.reference import disposable
from support.sdk import run

ODD = """\
def wants(message):
    return message.properties.get("kind") == "order" and int(message.body) % 2 == 1
"""


@pytest.fixture(scope="module")
def appliance(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Appliance]:
    data = tmp_path_factory.mktemp("sdk-functions") / "data"
    with disposable(Appliance(data, settings={"pythonFilterWorkers": "1"})) as appliance:
        FunctionFolder(appliance.store / "config" / "filters").put("odd-orders", ODD)
        yield appliance


def test_consumers_receive_what_the_function_selects(appliance: Appliance) -> None:
    async def scenario() -> None:
        await create_topic(appliance, "SdkFunctions", queues=1)
        await send(appliance, "SdkFunctions", 10, properties={"kind": "note"})
        orders = await send(appliance, "SdkFunctions", 10, first=10, properties={"kind": "order"})
        wanted = orders[1::2]  # includes the queue's last message: once it arrives, all others have been examined

        pushed = Gathered()
        async with push(
            appliance, "sdk-functions", "SdkFunctions", pushed, expression=FilterFunction("odd-orders"), workers=1
        ):
            await eventually(lambda: wanted[-1] in pushed.bodies, "the last order is pushed")
        assert set(pushed.bodies) == set(wanted)

        polled: list[bytes] = []
        lite = LitePullConsumer("sdk-functions-lite", config_for(appliance), start_from=StartFrom.FIRST)
        lite.subscribe("SdkFunctions", FilterFunction("odd-orders"))
        async with lite:
            async for message in lite:
                polled.append(message.body)
                if message.body == wanted[-1]:
                    break
        assert set(polled) == set(wanted)

    run(scenario())


def test_unknown_filter_function_is_refused_at_start(appliance: Appliance) -> None:
    async def scenario() -> None:
        await create_topic(appliance, "SdkFunctionsNone", queues=1)
        consumer = push(
            appliance, "sdk-functions-none", "SdkFunctionsNone", Gathered(), expression=FilterFunction("nowhere")
        )
        with pytest.raises(ConfigError, match="filter function nowhere does not exist") as refused:
            await consumer.start()
        assert refused.value.field == "expression"
        assert not consumer.is_running

    run(scenario())
