"""The scheduler and its handler."""

import random

import pytest

from epp.errors import InternalError, SaturatedError
from epp.scheduling.contracts import PrefixMatch
from epp.scheduling.handlers.single_profile import SingleProfileHandler
from epp.scheduling.pickers.max_score import MaxScorePicker
from epp.scheduling.profile import SchedulingProfile
from epp.scheduling.registry import NoParameters
from epp.scheduling.scheduler import Scheduler
from epp.scheduling.scorers.no_hit_lru import NoHitLruScorer
from tests.scheduling.builders import DropFilter, FixedScorer, context, cycle, fleet, slots_of


def profile(name, *scorers, filters=()):
    return SchedulingProfile(name, filters, scorers, MaxScorePicker("p", random.Random(1)))


class Handler:
    """Asks for what it is told, step by step; then for nothing."""

    type = "scripted"
    name = "scripted"

    def __init__(self, *steps, primary="a"):
        self.steps = list(steps)
        self._primary = primary

    def pick(self, cycle, profiles, done):
        return self.steps.pop(0) if self.steps else ()

    def primary(self, done):
        return self._primary


class Stuck(Handler):
    def pick(self, cycle, profiles, done):
        return ("a",)


def test_single_profile_handler_runs_the_profile_and_uses_its_order():
    handler = SingleProfileHandler.build("single-profile-handler", NoParameters(), context())
    c = cycle(fleet(2))

    decision = Scheduler([profile("default", (FixedScorer("s", [0.0, 1.0]), 1))], handler).schedule(c)

    assert decision.cycle is c
    assert decision.primary.profile == "default"
    assert list(decision.results) == ["default"]
    assert slots_of(decision.primary.order) == [1, 0]


def test_single_profile_handler_asks_for_the_first_profile_and_then_for_nothing():
    handler, c = SingleProfileHandler("single-profile-handler"), cycle(fleet(1))
    result = profile("a").run(c)

    assert handler.pick(c, ("a", "b"), {}) == ("a",)
    assert handler.pick(c, ("a", "b"), {"a": result}) == ()
    assert handler.primary({"a": result}) == "a"
    assert list(Scheduler([profile("a"), profile("b")], handler).schedule(c).results) == ["a"]


def test_single_profile_handler_without_a_profile_is_our_own_fault():
    with pytest.raises(InternalError, match="'single' ran no profile"):
        Scheduler([], SingleProfileHandler("single")).schedule(cycle(fleet(1)))


class Telling(FixedScorer):
    """A scorer that tells the client which slot answered."""

    def response_headers(self, endpoint):
        return ((f"x-{self.name}", str(endpoint.slot)),)


def test_plugins_of_the_primary_profile_add_headers_to_the_answer():
    pool = fleet(2)
    scorers = [(Telling("one", [0, 0]), 1), (FixedScorer("mute", [0, 0]), 1), (Telling("two", [0, 0]), 1)]
    scheduler = Scheduler(
        [profile("a", *scorers), profile("b", (Telling("other", [0, 0]), 1))], Handler(("a", "b"))
    )
    decision = scheduler.schedule(cycle(pool))

    assert scheduler.response_headers(decision, pool[1]) == (("x-one", "1"), ("x-two", "1"))


def test_without_such_plugins_nothing_is_added():
    pool = fleet(1)
    scheduler = Scheduler([profile("a", (FixedScorer("mute", [0]), 1))], Handler(("a",)))

    assert scheduler.response_headers(scheduler.schedule(cycle(pool)), pool[0]) == ()


def test_a_plugin_that_is_filter_and_scorer_is_told_of_a_pick_once():
    class Both(FixedScorer):
        def filter(self, cycle):
            return cycle.candidates

        def on_picked(self, cycle, endpoint):
            self.asked += 100

    both, pool = Both("both", [0, 0]), fleet(2)
    scheduler = Scheduler([profile("a", (both, 1), filters=(both,))], Handler(("a",)))

    scheduler.on_picked(scheduler.schedule(cycle(pool)), pool[0])

    assert both.asked == 101


def test_the_handler_names_the_profile_that_decides():
    scheduler = Scheduler([profile("a"), profile("b")], Handler(("a",), ("b",), primary="b"))

    decision = scheduler.schedule(cycle(fleet(1)))

    assert decision.primary.profile == "b"
    assert list(decision.results) == ["a", "b"]


def test_profiles_of_one_step_each_see_all_candidates():
    drop = DropFilter("drop", [0])
    scheduler = Scheduler([profile("a", filters=(drop,)), profile("b")], Handler(("a", "b"), primary="b"))

    decision = scheduler.schedule(cycle(fleet(2)))

    assert [e.slot for e in decision.results["a"].candidates] == [1]
    assert [e.slot for e in decision.primary.candidates] == [0, 1]


def test_a_handler_that_asks_for_the_same_profile_for_ever_is_stopped():
    with pytest.raises(InternalError, match="'scripted' asks for 'a' in vain") as caught:
        Scheduler([profile("a")], Stuck()).schedule(cycle(fleet(1)))

    assert caught.value.status == 500


def test_a_handler_that_asks_for_an_unknown_profile_is_stopped():
    with pytest.raises(InternalError, match="asks for 'x' in vain"):
        Scheduler([profile("a")], Handler(("x",))).schedule(cycle(fleet(1)))


def test_a_handler_that_runs_nothing_is_our_own_fault():
    with pytest.raises(InternalError, match="'scripted' ran no profile"):
        Scheduler([profile("a")], Handler()).schedule(cycle(fleet(1)))


def test_a_saturated_profile_ends_the_cycle():
    scheduler = Scheduler([profile("a", filters=(DropFilter("all", [0]),))], Handler(("a",)))

    with pytest.raises(SaturatedError):
        scheduler.schedule(cycle(fleet(1)))


def test_plugins_with_a_memory_are_told_of_the_pick():
    remembers = NoHitLruScorer("cold")
    scheduler = Scheduler([profile("a", (remembers, 1), (FixedScorer("s", [0, 0]), 1))], Handler(("a",)))
    c = cycle(fleet(2))
    decision = scheduler.schedule(c)

    scheduler.on_picked(decision, c.candidates[0])

    assert list(remembers.score(c)) == [0.0, 1.0]


def test_plugins_with_a_memory_see_the_candidates_that_they_scored():
    remembers = NoHitLruScorer("cold")
    only = profile("a", (remembers, 1), filters=(DropFilter("drop", [2]),))
    scheduler = Scheduler([only], Handler(("a",)))
    # Only the endpoint that the filter drops knows the prefix: for the others the request is cold.
    c = cycle(fleet(3), matches={"gpu": PrefixMatch(((0b100, 4),), 8, 64.0)})

    scheduler.on_picked(scheduler.schedule(c), c.candidates[0])

    assert list(remembers.score(cycle(fleet(2)))) == [0.0, 1.0]


def test_plugins_of_other_profiles_are_not_told():
    remembers = NoHitLruScorer("cold")
    scheduler = Scheduler([profile("a"), profile("b", (remembers, 1))], Handler(("a", "b")))
    c = cycle(fleet(2))

    scheduler.on_picked(scheduler.schedule(c), c.candidates[0])

    assert list(remembers.score(c)) == [1.0, 0.0]


class Learner(FixedScorer):
    """Remembers what it is told of picks and answers."""

    def __init__(self, name):
        super().__init__(name, [0.0, 0.0])
        self.told = []

    def on_picked(self, cycle, endpoint):
        self.told.append("picked")

    def on_first_token(self, cycle, now):
        self.told.append(("first token", now))

    def on_ended(self, cycle, now, output_tokens):
        self.told.append(("end", now, output_tokens))


def test_a_pick_whose_answer_nobody_will_report_is_told_to_those_that_do_not_wait_for_it():
    remembers, learner = NoHitLruScorer("cold"), Learner("learner")
    scheduler = Scheduler([profile("a", (remembers, 1), (learner, 1))], Handler(("a",)))
    c = cycle(fleet(2))

    scheduler.on_picked(scheduler.schedule(c), c.candidates[0], followed=False)

    assert list(remembers.score(c)) == [0.0, 1.0]
    assert learner.told == []


def test_where_only_the_cycle_is_known_learners_of_all_profiles_are_told_once():
    both, other = Learner("both"), Learner("other")
    scheduler = Scheduler([profile("a", (both, 1)), profile("b", (both, 1), (other, 1))], Handler(("a",)))

    scheduler.on_first_token_of(cycle(fleet(2)), 3.0)
    scheduler.on_end_of(cycle(fleet(2)), 4.0, 7)

    assert both.told == other.told == [("first token", 3.0), ("end", 4.0, 7)]
