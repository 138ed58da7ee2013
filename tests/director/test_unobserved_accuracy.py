"""The figures of docs/gateway.md are of this order."""

from tests.director.unobserved_accuracy import Load, accuracy


def test_with_scrapes_the_ledger_is_nearly_right():
    truth, error = accuracy(Load(rate=8, duration_s=10, scrape_s=0.2, total_s=60))

    assert 15 < truth < 25
    assert error < 0.1 * truth
