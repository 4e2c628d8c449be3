from headrace.protocol.acl_signature import SIGNATURE, UNIQUE_KEY_QUERY, is_signed, sign, signed_content
from headrace.protocol.frame import decode_frame

SECRET = "12345678"


def test_values_are_signed_in_the_order_of_their_keys() -> None:
    ext = {"topic": "TopicTest", "queueId": "0", "AccessKey": "RocketMQ"}
    assert signed_content(ext) == b"RocketMQ0TopicTest"
    assert sign(SECRET, ext) == "81TVNXFMLTfMm08aNFX+r9iZBrY="


def test_body_is_signed_too() -> None:
    header = (
        b'{"extFields":{"a":"PG_demo","b":"TopicTest","c":"TBW102","d":"4","e":"0","f":"0","g":"1700000000000","h":"0",'
        b'"i":"TAGS\\u0001TagA\\u0002KEYS\\u0001order-1\\u0002UNIQ_KEY\\u0001C0A8010A303918B4AAC247B760000007\\u0002WAIT\\u0001true",'
        b'"j":"0","k":"false","m":"false","n":"broker-a"}}'
    )
    command = decode_frame((len(header) + 4).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header)
    assert sign(SECRET, command.ext | {"AccessKey": "RocketMQ"}, b"Hello RocketMQ") == "olAWUJgy6jxXKlC64/p9orxtn9A="


def test_signature_is_valid_only_for_the_signed_content() -> None:
    ext = {"topic": "T", "AccessKey": "RocketMQ"}
    ext[SIGNATURE] = sign(SECRET, ext, b"body")
    assert is_signed(SECRET, ext, b"body")
    assert not is_signed(SECRET, ext, b"bod")
    assert not is_signed("other", ext, b"body")
    assert not is_signed(SECRET, ext | {"topic": "U"}, b"body")
    assert not is_signed(SECRET, {"topic": "T"})
    assert not is_signed(SECRET, ext | {SIGNATURE: "ä"})


def test_unique_key_query_field_may_be_signed_or_unsigned() -> None:
    ext = {"topic": "T", "key": "k"}
    unsigned, signed = sign(SECRET, ext), sign(SECRET, ext | {UNIQUE_KEY_QUERY: "true"})
    assert unsigned != signed
    for signature in (unsigned, signed):
        assert is_signed(SECRET, ext | {UNIQUE_KEY_QUERY: "true", SIGNATURE: signature})


def test_keys_are_sorted_as_java_sorts_them() -> None:
    ext = {"\uffee": "2", "\U0001f600": "1", "a": "0", "B": "-"}
    assert signed_content(ext) == b"-012"
