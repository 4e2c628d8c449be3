from appliance.rates import SAMPLE_EVERY_MS, WINDOW_MS, RateWindow


def test_rate_requires_two_samples() -> None:
    window = RateWindow()
    assert window.is_due(0)
    assert window.per_second(5, {"a": 1}) == {}
    window.add(1_000, {"a": 1})
    assert not window.is_due(1_000 + SAMPLE_EVERY_MS - 1)
    assert window.per_second(1_000, {"a": 1}) == {}


def test_rate_is_the_difference_over_the_window() -> None:
    window = RateWindow()
    for second in range(20):
        window.add(second * 1_000, {"a": second * 10, "b": 0})
    assert window.per_second(19_500, {"a": 195, "b": 0}) == {"a": 10.0, "b": 0.0}


def test_samples_older_than_the_window_are_ignored() -> None:
    window = RateWindow()
    window.add(0, {"a": 0})
    for second in range(1, 2 * WINDOW_MS // 1_000):
        window.add(second * 1_000, {"a": 1_000})
    assert window.per_second(2 * WINDOW_MS, {"a": 1_000}) == {"a": 0.0}


def test_new_counter_has_no_rate() -> None:
    window = RateWindow()
    window.add(0, {"a": 0})
    assert window.per_second(1_000, {"a": 3, "b": 7}) == {"a": 3.0}
