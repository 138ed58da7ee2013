"""F23 (GIE p1929): a profile handler that asked for the same profile for ever was never stopped."""

import pytest

from epp.errors import InternalError
from epp.http.errors import error_response
from epp.scheduling.scheduler import Scheduler
from tests.scheduling.builders import FixedScorer, cycle, fleet
from tests.scheduling.test_scheduler import profile


class ForEver:
    name = "for-ever"
    type = "for-ever"

    def pick(self, _cycle, _names, _done):
        return ("a",)

    def primary(self, _done):
        return "a"


def test_it_is_our_own_fault_with_its_name():
    scheduler = Scheduler([profile("a", (FixedScorer("one", [0]), 1))], ForEver())

    with pytest.raises(InternalError, match="profile handler 'for-ever' asks for 'a' in vain") as caught:
        scheduler.schedule(cycle(fleet(1)))
    assert error_response(caught.value)[0] == 500
