"""One run: a world, perhaps with an attack, and who checks results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cobblestone.credit_lab.attacks.acts import ACT, HONEST, Act, Attack, Seen, as_row, never
from cobblestone.credit_lab.bench import loop
from cobblestone.credit_lab.bench.population import computers, enlist, membership, work
from cobblestone.credit_lab.bench.streams import stream_key
from cobblestone.credit_lab.bench.worlds import World
from cobblestone.credit_lab.systems.chance import draw
from cobblestone.credit_lab.systems.pay import Watcher
from cobblestone.credit_lab.systems.tape import RESULT, Tape
from cobblestone.policy.dispatch.limits import SPOT_CHECK_FACTOR

_STREAMS = ("pick", "noise", "fail", "wrong", "burst", "jump", "check")
_RECORD = ("results", "refused", "trusted", "since_pass", "passes", "caught")


@dataclass(slots=True)
class Owner:
    """The owner of an attacking computer."""

    seen: Seen = field(default_factory=Seen)
    act: Act = field(default_factory=Act)


class Run:
    """A run that has not ended; ``checks`` is one of the kinds in `loop`."""

    watcher: Watcher

    def __init__(
        self, world: World, seed: int, *, attack: Attack | None = None, checks: int = loop.NONE
    ) -> None:
        """Draw the population and its work."""
        self.world, self._attack = world, attack or Attack(name="", about="")
        honest = computers(world, seed)
        self.hosts = enlist(honest, attack, seed)
        self.jobs = work(world, seed)
        self.member = membership(honest, world, seed)
        self.rules = loop.Rules(
            quorum=world.quorum,
            checks=checks,
            check_factor=SPOT_CHECK_FACTOR,
            asks=attack is not None
            and (attack.refuse is not never or attack.renew is not never or attack.meets),
            pause=False,
            release=world.release,
            route={"": 0, "tag": 1, "speed": 2}[world.route],
            **{name: np.uint64(stream_key(seed, name)) for name in _STREAMS},
        )
        self.draws = np.uint64(stream_key(seed, "attackers"))
        self.state = np.zeros(loop.STATE_SIZE, dtype=np.int64)
        self.act = np.zeros(1, dtype=ACT)
        self.scratch = np.zeros(loop.MOST_REPLICAS, dtype=RESULT)
        capacity = int(world.jobs * (world.quorum + 0.2)) + 2 * loop.MOST_DRAWS
        self.rows = np.zeros(capacity, dtype=RESULT)
        #: account of each identity; 0 is not one
        self.accounts: list[int] = [0, *(int(person) + 1 for person in self.hosts["person"])]
        self.owners: dict[int, Owner] = {}
        fields: Any = loop.HOST.fields
        #: the counts of `_RECORD`, which stand side by side in a row, by computer
        self.record = np.ndarray(
            (self.hosts.size, len(_RECORD)),
            dtype=np.int64,
            buffer=self.hosts,
            offset=fields[_RECORD[0]][1],
            strides=(loop.HOST.itemsize, 8),
        )

    def finish(self, watcher: Watcher | None = None) -> Tape:
        """Run to the end, with a system that decides about checks, or with none."""
        if watcher is not None:
            self.watcher = watcher
            self.rules = self.rules._replace(checks=loop.OWN, pause=True)
        answers: dict[int, Callable[[], None]] = {
            loop.ASK: self._ask,
            loop.REPORT: self._report,
            loop.CHECK: self._check,
            loop.DECIDED: self._tell,
            loop.FULL: self.grow,
        }
        while (why := self.advance()) != loop.DONE:
            answers[why]()
        rows = self.rows[: self.state[loop.FILLED]]
        return Tape(jobs=self.jobs, results=rows, accounts=np.array(self.accounts), quorum=self.world.quorum)

    def advance(self) -> int:
        """Go on until somebody has to decide something; return what."""
        member = self.member
        return loop.advance(
            self.rules, self.state, self.hosts, self.jobs, member.starts, member.members, member.cumulative,
            self.act, self.scratch, self.rows,
        )  # fmt: skip

    def grow(self) -> None:
        """Make room for more rows."""
        more = np.zeros(self.rows.size // 4 + 2 * loop.MOST_DRAWS, dtype=RESULT)
        self.rows = np.concatenate([self.rows, more])

    def renewed(self) -> None:
        """Make room for a new identity."""

    # -------------------------------------------------------------------------------------- attackers

    def _owner(self) -> tuple[Any, Owner, Attack]:  # Any: a row of NumPy
        state, place = self.state, int(self.state[loop.PENDING])
        host = self.hosts[place]
        owner = self.owners.get(place)
        if owner is None:
            owner = self.owners[place] = Owner()
        seen, number = owner.seen, int(state[loop.JOB_NO])
        job = self.jobs[number]
        seen.job, seen.time, seen.length = number, float(job["time"]), float(job["length"])
        seen.draw = draw(self.draws, number, place)
        seen.results, seen.refused, seen.trusted, seen.since_pass, seen.passes, seen.caught = self.record[
            place
        ].tolist()
        return host, owner, self._attack

    def _ask(self) -> None:
        host, owner, attack = self._owner()
        seen = owner.seen
        seen.alone, seen.first, seen.accomplices = False, bool(self.state[loop.ASSIGNED] == 0), 0
        if attack.renew(seen, attack.strength):
            host["identity"] = len(self.accounts)
            self.accounts.append(len(self.accounts) + self.world.hosts)  # nobody has this account
            self.renewed()
            for name in _RECORD:
                host[name] = 0
                setattr(seen, name, 0)
        self.act["refusal"] = attack.refuse(seen, attack.strength)
        if attack.meets and self.act["refusal"][0] == HONEST and seen.first:
            self.state[loop.MATE] = self._mate(int(self.state[loop.PENDING]))
        self.state[loop.ANSWERED] = 1

    def _mate(self, place: int) -> int:
        mates = np.flatnonzero(self.hosts["group"] == self.hosts["group"][place])
        others = mates[mates != place]
        return int(others[0]) if others.size else -1

    def _report(self) -> None:
        host, owner, attack = self._owner()
        seen, state = owner.seen, self.state
        assigned = int(state[loop.ASSIGNED])
        group = int(host["group"])
        seen.accomplices = -1
        for place in self.scratch["host"][:assigned].tolist():
            seen.accomplices += int(self.hosts["group"][place]) == group
        seen.alone = assigned == 1 and self.rules.checks == loop.VISIBLE
        seen.first = bool(state[loop.REPORTED] == 0)
        owner.act = Act()
        attack.report(seen, owner.act, attack.strength)
        self.act[0] = as_row(owner.act, group)
        state[loop.ANSWERED] = 1

    # ------------------------------------------------------------------------------------- the system

    def _check(self) -> None:
        state, number = self.state, int(self.state[loop.JOB_NO])
        reported = int(state[loop.REPORTED])
        more = self.watcher.wants(self.scratch[:reported], self.jobs[number])
        if more > 0:
            state[loop.WANTED] = min(loop.MOST_REPLICAS, reported + more)
            state[loop.AGREEING] = max(state[loop.AGREEING], min(3, reported + more))
            state[loop.TRUSTED] = 1
        state[loop.ANSWERED] = 1

    def _tell(self) -> None:
        state = self.state
        number = int(state[loop.JOB_NO]) - 1
        self.watcher.decided(self.rows[state[loop.FIRST] : state[loop.FILLED]], self.jobs[number])
