"""How pages show numbers, and where browsers may break long texts."""

import pytest
from jinja2 import DictLoader

from web.serving.html import Templates
from web.tables.formats import breakable, format_bytes, format_whole, tone
from web.translations import translator
from web.translations.durations import format_duration


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [
        (0, "0 s"),
        (1.25, "1.2 ms"),
        (340, "340 ms"),
        (60_000, "1 min"),
        (84_500, "1 min 24 s"),
        (3_600_000, "1 h"),
        (3_601_000, "1 h"),
        (273_600_000, "3 d 4 h"),
        (-75_000, "-1 min 15 s"),
        (float("inf"), "inf"),
    ],
)
def test_duration_has_its_two_largest_units_and_no_zero(milliseconds: float, shown: str) -> None:
    assert format_duration(milliseconds, str) == shown


def test_duration_has_the_units_of_the_page_s_language() -> None:
    template = Templates("")._environment.from_string("{{ 84500 | duration }}, {{ 0 | duration }}, {{ 2 | duration }}")
    assert template.render(t=translator("zh")) == "1 分钟 24 秒, 0 秒, 2 毫秒"


def test_duration_among_the_values_of_a_text_has_the_units_of_its_language() -> None:
    text = "{delay:duration} at {rate:.1f} of {topic}"
    values = {"delay": 84_500, "rate": 0.25, "topic": "{x}"}
    assert translator("en")(text, **values) == "1 min 24 s at 0.2 of {x}"
    assert translator("zh")(text, **values) == "1 分钟 24 秒 at 0.2 of {x}"


@pytest.mark.parametrize(
    ("value", "shown"), [(0.0, "0 B"), (12.34567, "12 B"), (1023, "1,023 B"), (1536, "1.5 KiB"), (-2048, "-2.0 KiB")]
)
def test_bytes_have_no_fraction_below_a_kibibyte(value: float, shown: str) -> None:
    assert format_bytes(value) == shown


def test_counts_are_whole_and_exact() -> None:
    assert (format_whole(2029.6), format_whole((1 << 63) - 1)) == ("2,030", "9,223,372,036,854,775,807")


@pytest.mark.parametrize(
    ("share", "english", "chinese"),
    [(0.403, "40.3 %", "40.3%"), (0.39, "39 %", "39%"), (0, "0 %", "0%"), (1, "100 %", "100%")],
)
def test_share_is_a_percentage_in_the_page_s_language_without_a_decimal_that_is_zero(
    share: float, english: str, chinese: str
) -> None:
    page = Templates("")._environment.from_string("{{ share | share }} {{ (share * 100) | percent }}")
    for language, expected in (("en", english), ("zh", chinese)):
        text = page.render(t=translator(language), share=share)
        assert text == f"{expected} {expected.removesuffix('%').strip()}"


def test_long_text_breaks_after_separators_and_in_very_long_words_only() -> None:
    assert breakable("/topics/<b>/delete") == "/topics/&lt;b&gt;/delete"
    path = "/var/lib/headrace/broker/store/commitlog/00000000000000000000"
    assert breakable(path).split("<wbr>") == [
        "/var/", "lib/", "headrace/", "broker/", "store/", "commitlog/", "00000000000000000000",
    ]  # fmt: skip
    assert breakable("x" * 70).split("<wbr>") == ["x" * 32, "x" * 32, "x" * 6]
    assert breakable("the broker has <script> in its configuration, and more").replace("<wbr>", "") == (
        "the broker has &lt;script&gt; in its configuration, and more"
    )


def test_states_that_need_attention_are_marked() -> None:
    assert (tone("failed"), tone("offline"), tone("running"), tone(None)) == ("bad", "warn", "", "")


@pytest.mark.parametrize(
    ("language", "shown"),
    [
        ("en", "<p>Cause: Cause: <a>x</a> Cause: <b>mine： </b> x</p>"),
        ("zh", "<p>原因：原因：<a>x</a> 原因： <b>mine： </b> x</p>"),
    ],
)
def test_chinese_has_no_space_after_full_width_punctuation(language: str, shown: str) -> None:
    source = '<p>{{ t("Cause:") }} {{ t("Cause:") }} <a>x</a> {{ t("Cause:") }} <b>{{ mine }}</b> x</p>'
    templates = Templates("")
    templates._environment.loader = DictLoader({"page": source})
    assert templates.render("page", t=translator(language), mine="mine： ") == shown
