"""The client's decisions: events in, instructions out.

What an event does to the state is in ``intake``, what is decided after it in ``decisions``, how in the policies.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cobblestone.domain.errors import ConfigError, IllegalTransition
from cobblestone.policy.client.core import events as ev
from cobblestone.policy.client.core.checks import BrokenRule, broken_rules, require_possible
from cobblestone.policy.client.core.decisions import DecisionRound, why_job, why_project
from cobblestone.policy.client.core.intake import HANDLERS, Intake
from cobblestone.policy.client.core.protocol import Policy, make_policy
from cobblestone.policy.client.core.reasons import Why
from cobblestone.policy.client.core.state import CoreState, Phase

_VERSION = 1
#: Makes a policy of its name and a source of chance.
PolicyMaker = Callable[[str, random.Random], Policy]
#: An event that cannot have happened, and what is wrong with it.
Refusal = tuple[ev.Event, IllegalTransition]


class CountingRandom(random.Random):
    """A random source that counts what is drawn, so that it can be brought back to where it was."""

    def __new__(cls, source: random.Random, state: CoreState) -> CountingRandom:
        return super().__new__(cls)

    def __init__(self, source: random.Random, state: CoreState) -> None:
        super().__init__(0)
        self._source, self._state = source, state

    def random(self) -> float:
        """Return the next number of [0, 1)."""
        self._state.draws += 1
        return self._source.random()


class ClientCore:
    """A client's decisions.  ``validate``: check after each round that the state is sound, and raise :class:`BrokenRule` if not.

    ``rng`` is used for the spread of waits alone.  With ``explain`` every decision comes with an `Explain`.  With
    ``notices_sleep`` a long silence counts as time in which the host was off: for drivers that send something every minute.
    """

    validate = False

    def __init__(
        self,
        policy: Policy,
        *,
        state: CoreState | None = None,
        explain: bool = False,
        notices_sleep: bool = False,
        memory: Any = None,  # Any: the policy's, as it was stored
    ) -> None:
        self.state = state if state is not None else CoreState()
        self.policy = policy
        self._decisions = DecisionRound(self.state, policy, explain=explain)
        self._intake = Intake(self._decisions, notices_sleep=notices_sleep)
        policy.bind(self.state, memory, explain=explain)
        if state is not None:
            policy.refit()

    @classmethod
    def start(
        cls, name: str, *, rng: random.Random, make: PolicyMaker = make_policy, **options: bool
    ) -> ClientCore:
        """Return the core of a new client with the policy ``name``, which ``make`` makes."""
        state = CoreState()
        return cls(make(name, CountingRandom(rng, state)), state=state, **options)

    @classmethod
    def restore(
        cls,
        plain: Mapping[str, Any],
        *,
        rng: random.Random,
        policy: str = "",
        make: PolicyMaker = make_policy,
        **options: bool,
    ) -> ClientCore:
        """Return the core that :meth:`snapshot` gave; ``rng`` must begin as it began then.

        Another ``policy`` than the stored one begins without memories.  Raises :class:`ConfigError` if ``plain`` is nothing
        of ours.
        """
        if plain.get("version") != _VERSION:
            raise ConfigError(
                f"the stored state has version {plain.get('version')!r}; this program reads {_VERSION}"
            )
        if not plain.keys() >= {"policy", "state", "memory"}:
            raise ConfigError("the stored state is not complete")
        state = CoreState.restore(plain["state"])
        for _ in range(state.draws):
            rng.random()
        made = make(policy or str(plain["policy"]), CountingRandom(rng, state))
        same = made.name == plain["policy"]  # ``policy`` may be a short name
        return cls(made, state=state, memory=plain["memory"] if same else None, **options)

    def snapshot(self) -> dict[str, Any]:
        """Return everything that the core knows, for JSON."""
        return {
            "version": _VERSION,
            "policy": self.policy.name,
            "state": self.state.snapshot(),
            "memory": ev.to_plain(self.policy.memory),
        }

    # -- the whole interface ------------------------------------------------------------------------------------------

    def handle(self, *events: ev.Event, refused: list[Refusal] | None = None) -> list[ev.Instruction]:
        """Take events in and return what is to be done.

        Events that cannot have happened, such as the end of an unknown job, change nothing.  They are appended to ``refused``,
        each with what is wrong, and the others are taken.  Without that list the first of them raises
        :class:`IllegalTransition`; what came before it has been taken in, and is decided upon with the next events.
        """
        out = self._handle(events, refused)
        if self.validate and (broken := broken_rules(self.state)):
            happened = ", ".join(type(event).__name__ for event in events)
            raise BrokenRule(f"after {happened}: {'; '.join(broken)}")
        return out

    def _handle(self, events: Sequence[ev.Event], refused: list[Refusal] | None) -> list[ev.Instruction]:
        out = self._decisions.out = []
        state = self.state
        told = figures = False
        for event in events:
            kind = type(event)
            try:
                require_possible(state, event)
            except IllegalTransition as error:
                if refused is None:
                    raise
                refused.append((event, error))
                continue
            if event.now != state.now and kind is not ev.HostOn:
                self._intake.advance(event.now)
            if event.decisive and not told:
                told = True
                self.policy.outdated()
                self.policy.before(deciding=True)
            elif kind is ev.JobProgressed:
                figures = True
            HANDLERS[kind](self._intake, event)
        if told:
            self._decisions.decide()
        elif figures:
            self.policy.before(deciding=False)
            if self.policy.pressing():
                self.policy.outdated()
                self.state.must_schedule = True
                self._decisions.decide()
                return out
        if not told and state.next_schedule < state.alarm:
            self._decisions.bring_alarm_forward()
        return out

    def instructions_in_force(self) -> list[ev.Instruction]:
        """Return what should be in progress, for a driver that was killed: running tasks, a contact, jobs to abort."""
        s = self.state
        force: list[ev.Instruction] = [
            ev.StartTask(job=job.id, instances=job.instances, why=job.why) for job in s.running
        ]
        force += [ev.QuitTask(job=job.id) for job in s.jobs if job.phase is Phase.QUITTING]
        force += [ev.GiveUp(job=job.id, why=job.why) for job in s.finished if job.phase is Phase.GIVEN_UP]
        for each in (s.contact, *s.slow):
            if each is not None:
                i = s.position(each.project)
                force.append(self._decisions.contact_instruction(i, each.requests, each.report))
        return [*force, ev.SetAlarm(at=s.alarm)]

    def why_job(self, identity: str) -> tuple[Why, ...]:
        """Return why a job runs or waits.  Raises :class:`IllegalTransition` if it is not known."""
        return why_job(self.state, self.state.job(identity))

    def why_project(self, identity: str) -> tuple[Why, ...]:
        """Return why a project is asked for work or not.  Raises :class:`IllegalTransition` if it is not attached."""
        return why_project(self.state, self.state.projects[self.state.position(identity)])
