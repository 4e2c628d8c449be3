from headrace.model import Message, MessageExt, sys_flag


def test_message_attributes_are_stored_in_properties() -> None:
    message = Message(
        "T", "grüß", tags="TagA", keys=["k1", "k2"], flag=3, properties={"a": "b"}, delay_level=4, wait_store=False
    )
    assert message.body == "grüß".encode()
    assert message.properties == {"a": "b", "TAGS": "TagA", "KEYS": "k1 k2", "DELAY": "4", "WAIT": "false"}
    assert (message.tags, message.keys, message.delay_level, message.wait_store) == ("TagA", ["k1", "k2"], 4, False)


def test_message_does_not_share_its_properties_with_the_caller() -> None:
    given = {"a": "b"}
    Message("T", b"", tags="x", properties=given)
    assert given == {"a": "b"}


def test_plain_message_has_no_properties() -> None:
    message = Message("T", b"x")
    assert message.properties == {}
    assert (message.tags, message.keys, message.delay_level, message.wait_store) == (None, [], 0, True)
    assert message == Message("T", b"x")
    assert message != Message("T", b"y")


def test_message_id_is_the_unique_id_or_the_offset_message_id() -> None:
    stored = MessageExt("T", physical_offset=0, store_host=("127.0.0.1", 20911))
    assert stored.message_id == stored.offset_message_id == "7F000001000051AF0000000000000000"
    stored.properties["UNIQ_KEY"] = "C0A8010A303918B4AAC247B760000007"
    assert stored.message_id == "C0A8010A303918B4AAC247B760000007"


def test_flags_of_a_stored_message_are_decoded() -> None:
    stored = MessageExt("T", sys_flag=0x309, properties={"TAGS": "x", "KEYS": " a  b ", "DELAY": "3"})
    assert stored.is_compressed
    assert stored.transaction_type == sys_flag.TRANSACTION_COMMIT
    assert (stored.tags, stored.keys, stored.delay_level) == ("x", ["a", "b"], 3)
    stored.properties["DELAY"] = "soon"
    assert stored.delay_level == 0
