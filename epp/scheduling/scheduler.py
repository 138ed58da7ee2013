"""The scheduler: a profile handler over profiles."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from epp.endpoints.types import Endpoint
from epp.errors import InternalError
from epp.scheduling.added_headers import fit_headers
from epp.scheduling.contracts import (
    Cycle,
    Decision,
    PickObserver,
    ProfileHandler,
    ProfileResult,
    ResponseHeaderPlugin,
    ResponseObserver,
)
from epp.scheduling.handlers.single_profile import SingleProfileHandler
from epp.scheduling.profile import SchedulingProfile

__all__ = ["Scheduler"]


class Scheduler:
    """Turns a cycle into a decision."""

    def __init__(
        self,
        profiles: Sequence[SchedulingProfile],
        handler: ProfileHandler,
        header_dropped: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`header_dropped` is told the name of a header that a plugin should not have added."""
        self.profiles = {profile.name: profile for profile in profiles}
        self.handler = handler
        self._header_dropped = header_dropped
        self._names = tuple(self.profiles)
        # This handler asks for the first profile whatever the request: mostly there is no need to ask it.
        single = isinstance(handler, SingleProfileHandler) and profiles
        self._only = self.profiles[self._names[0]] if single else None
        self._observers = {name: _observers(profile) for name, profile in self.profiles.items()}
        self._learners = {name: _learners(profile) for name, profile in self.profiles.items()}
        every = {id(one): one for learners in self._learners.values() for one in learners}
        self._all_learners = tuple(every.values())
        self._header_plugins = {name: _header_plugins(profile) for name, profile in self.profiles.items()}

    def schedule(self, cycle: Cycle) -> Decision:
        """Run the profiles that the handler asks for, each at most once.

        Raises:
            NoEndpointsError: no candidate.
            SaturatedError: a profile dropped every candidate.
            InternalError: the handler asks for a profile twice, for one that does not exist, or for none.
        """
        only = self._only
        if only is not None:
            result = only.run(cycle)
            return Decision(cycle, result, {only.name: result})
        done: dict[str, ProfileResult] = {}
        while names := self.handler.pick(cycle, self._names, done):
            for name in names:
                if name in done or name not in self.profiles:
                    raise InternalError(f"profile handler {self.handler.name!r} asks for {name!r} in vain")
                done[name] = self.profiles[name].run(cycle)
        if not done:
            raise InternalError(f"profile handler {self.handler.name!r} ran no profile")
        return Decision(cycle, done[self.handler.primary(done)], done)

    def on_picked(self, decision: Decision, endpoint: Endpoint, *, followed: bool = True) -> None:
        """The request of `decision` goes to `endpoint`: plugins of the primary profile may remember it.

        They see the candidates that the filters left, as when they scored. Unless it is `followed`, nobody
        will tell of its answer, and those that wait for answers are not told of it either.
        """
        observers = self._observers[decision.primary.profile]
        if not followed:
            observers = tuple(o for o in observers if not isinstance(o, ResponseObserver))
        if observers:
            seen = replace(decision.cycle, candidates=decision.primary.candidates)
            for observer in observers:
                observer.on_picked(seen, endpoint)

    def on_first_token(self, decision: Decision, now: float) -> None:
        """The first byte of a 2xx answer to the request of `decision` came."""
        for learner in self._learners[decision.primary.profile]:
            learner.on_first_token(decision.cycle, now)

    def on_ended(self, decision: Decision, now: float, output_tokens: int | None) -> None:
        """The endpoint of the request of `decision` is done with it, or has failed."""
        for learner in self._learners[decision.primary.profile]:
            learner.on_ended(decision.cycle, now, output_tokens)

    def on_first_token_of(self, cycle: Cycle, now: float) -> None:
        """As `on_first_token`, where only the cycle is known: every profile's plugins are told."""
        for learner in self._all_learners:
            learner.on_first_token(cycle, now)

    def on_end_of(self, cycle: Cycle, now: float, output_tokens: int | None) -> None:
        """As `on_ended`, where only the cycle is known."""
        for learner in self._all_learners:
            learner.on_ended(cycle, now, output_tokens)

    def response_headers(self, decision: Decision, endpoint: Endpoint) -> tuple[tuple[str, str], ...]:
        """What plugins of the primary profile add to the answer, without what cannot be sent."""
        plugins = self._header_plugins[decision.primary.profile]
        if not plugins:
            return ()
        added = (header for plugin in plugins for header in plugin.response_headers(endpoint))
        return fit_headers(added, self._header_dropped)


def _plugins(profile: SchedulingProfile) -> list[object]:
    """Filters, scorers and the picker, each once: a plugin may be more than one of them."""
    plugins = [*profile.filters, *(scorer for scorer, _ in profile.scorers), profile.picker]
    return list({id(plugin): plugin for plugin in plugins}.values())


def _observers(profile: SchedulingProfile) -> tuple[PickObserver, ...]:
    return tuple(plugin for plugin in _plugins(profile) if isinstance(plugin, PickObserver))


def _learners(profile: SchedulingProfile) -> tuple[ResponseObserver, ...]:
    return tuple(plugin for plugin in _plugins(profile) if isinstance(plugin, ResponseObserver))


def _header_plugins(profile: SchedulingProfile) -> tuple[ResponseHeaderPlugin, ...]:
    return tuple(plugin for plugin in _plugins(profile) if isinstance(plugin, ResponseHeaderPlugin))
