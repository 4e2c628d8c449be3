from pathlib import Path

import pytest

from headrace.model.option import from_mapping, keys_of
from store.config import StoreConfig
from store.errors import BadStoreConfig
from store.index.layout import file_size


def config(**texts: str) -> StoreConfig:
    return from_mapping(StoreConfig, texts)


def test_defaults_equal_rocketmqs_and_are_valid() -> None:
    default = StoreConfig()
    default.check()
    assert default.mapped_file_size_commit_log == 1 << 30
    assert default.consume_queue_file_size == 6_000_000
    assert file_size(default.max_hash_slot_num, default.max_index_num) == 420_000_040


@pytest.mark.parametrize(
    "key",
    [
        "mappedFileSizeCommitLog",
        "checkCRCOnRecover",
        "flushDiskType",
        "haSlaveFallbehindMax",
        "storePathRootDir",
        "deleteWhen",
    ],
)
def test_keys_equal_rocketmqs(key: str) -> None:
    assert key in keys_of(StoreConfig)


def test_every_option_is_described() -> None:
    assert all(field.metadata["help"].endswith(".") for field in keys_of(StoreConfig).values())


def test_length_of_a_consume_queue_file_is_rounded_up_to_entries() -> None:
    assert config(mappedFileSizeConsumeQueue="741").consume_queue_file_size == 760


@pytest.mark.parametrize(("given", "ratio"), [("5", 0.1), ("75", 0.75), ("99", 0.95)])
def test_disk_ratio_is_clamped(given: str, ratio: float) -> None:
    assert config(diskMaxUsedSpaceRatio=given).disk_max_used_ratio == ratio


def test_hours_of_deletion_are_joined_by_semicolons() -> None:
    assert config(deleteWhen="04;16;00").delete_hours == {0, 4, 16}
    assert config(deleteWhen="").delete_hours == frozenset()


@pytest.mark.parametrize("text", ["24", "4:00", "night"])
def test_invalid_hours_are_refused(text: str) -> None:
    with pytest.raises(BadStoreConfig, match=f"deleteWhen={text}"):
        config(deleteWhen=text).check()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("flushDiskType", "SOMETIMES"),
        ("brokerRole", "KING"),
        ("mappedFileSizeCommitLog", "4259847"),
        ("mappedFileSizeConsumeQueue", "0"),
        ("maxHashSlotNum", "0"),
        ("maxIndexNum", "-1"),
        ("haTransferBatchSize", "0"),
        ("haTransferBatchSize", "67108865"),
    ],
)
def test_invalid_settings_are_refused_by_name(key: str, value: str) -> None:
    with pytest.raises(BadStoreConfig, match=f"{key}={value}: "):
        config(**{key: value}).check()


def test_smallest_log_file_holds_the_largest_record_and_a_blank() -> None:
    config(mappedFileSizeCommitLog=str(4194304 + 65536 + 8)).check()


def test_commit_log_can_be_elsewhere_but_only_in_one_folder() -> None:
    paths = config(storePathRootDir="/data/store", storePathCommitLog="/fast/log").paths()
    assert (paths.root, paths.commit_log) == (Path("/data/store"), Path("/fast/log"))
    assert config(storePathRootDir="/data/store").paths().commit_log == Path("/data/store/commitlog")
    with pytest.raises(BadStoreConfig, match="several directories"):
        config(storePathCommitLog="/a,/b").paths()


def test_tilde_is_expanded_to_the_home_folder() -> None:
    assert StoreConfig().paths().root == Path.home() / "store"
