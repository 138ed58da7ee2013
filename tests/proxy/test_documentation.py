"""docs/proxying.md says what the code does."""

import re
from pathlib import Path

import pytest

from epp import errors
from epp.director import EndReason

PAGE = (Path(__file__).parents[2] / "docs" / "proxying.md").read_text("utf-8")
ABSTRACT = {"EppError", "ClientError", "UpstreamError", "UnavailableError", "ClientDisconnectedError"}
KINDS = [
    kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, errors.EppError) and name not in ABSTRACT
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_has_its_row(kind):
    reason = f"`{kind.reason}`" if kind.reason else ""
    row = rf"\| {kind.status} \| `{kind.type}` \| `{kind.code}` \| {re.escape(reason)} ?\|"
    assert re.search(row, PAGE)


@pytest.mark.parametrize("reason", list(EndReason))
def test_every_reason_of_an_end_is_named(reason):
    assert f"`{reason}`" in PAGE
