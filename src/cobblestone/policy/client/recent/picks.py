"""Which jobs run together in the round-robin simulation of today's clients, updated from step to step.

The model: as long as a device type has room, the project of the highest group and priority gets the next of its jobs, which
lowers its priority; GPUs come before CPUs.

A step changes little, and choosing dozens of jobs again in each of thousands of steps is what such a simulation would cost.  CPU
jobs of a project run in the order of its queue, so what runs are the beginnings of the queues, and each project's picks come at
rising *ranks*.  Hence a choice is the right one if no job of it ranks after one that is not in it, and a few exchanges mend it.
Only where apps are limited, and for GPUs, of which there are few, all is chosen again.

Nor does every step need a look.  As long as each job that ends is followed by the next of its project, the credit of all projects
tends to a level of each, at one pace; ranks times the sum of all credit are linear in what has not faded yet.  So it can be told
when the first two ranks will cross (`steady_fade`), and until then jobs just end and follow each other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush, heapreplace

from cobblestone.domain.values import float_sum, value
from cobblestone.policy.client.core.state import ClientJob
from cobblestone.policy.client.core.values import CPU
from cobblestone.policy.client.recent.concurrency import ProjectLimits, Together
from cobblestone.policy.client.recent.rec import PICK_CHARGE, Devices, priority_terms

#: Jobs per CPU and project from which on it pays to look for how long they just follow each other.
CROWD = 4
#: Seconds after which at the latest the choice is looked at again.
STEP = 3600.0
#: Of a steady time, what is not relied on: crossings are sums of rounded numbers.
_MARGIN = 1e-9
_MAX_CROSSINGS = 50
#: Steps after which it is tried again to let jobs just follow each other where they did not.
_LONGEST_PAUSE = 63


#: Recent credit (a day) to which work of one FLOP/s leads in the end.
LEVEL_PER_FLOP = 200.0 / 1e9


@value(kw_only=True)
class QueueProject:
    """The attributes of a project that the simulation uses."""

    share: float
    rec: float
    limits: ProjectLimits = ProjectLimits()
    group: int = 0  #: projects of a higher group come first


class Rundown:
    """The jobs that run, each with the progress at which it ends; CPU and GPU jobs progress at a speed each."""

    __slots__ = ("_end_of", "_ends", "_kind", "_left", "_progress", "_speeds")

    def __init__(self, jobs: Sequence[ClientJob], cpu_speed: float, gpu_speed: float) -> None:
        self._left = [job.remaining for job in jobs]
        self._kind = [1 if job.gpu else 0 for job in jobs]
        self._end_of: list[float | None] = [None] * len(jobs)  #: None: it does not run
        #: heaps of ends and jobs; those that were stopped stay in
        self._ends: list[list[tuple[float, int]]] = [[] for _ in range(2 if any(self._kind) else 1)]
        self._progress = [0.0, 0.0]
        self._speeds = (cpu_speed, gpu_speed)

    def start(self, job: int) -> None:
        """Let a job run."""
        kind = self._kind[job]
        self._end_of[job] = end = self._progress[kind] + self._left[job]
        heappush(self._ends[kind], (end, job))

    def stop(self, job: int) -> None:
        """Let a job wait."""
        end = self._end_of[job]
        if end is not None:
            self._left[job] = end - self._progress[self._kind[job]]
            self._end_of[job] = None

    def next_end(self) -> tuple[float, int] | None:
        """Return in how many seconds the next job ends, and which."""
        end_of, found = self._end_of, None
        for kind, ends in enumerate(self._ends):
            while ends and end_of[ends[0][1]] != ends[0][0]:
                heappop(ends)
            if ends:
                end, job = ends[0]
                delay = (end - self._progress[kind]) / self._speeds[kind]
                if found is None or (delay, job) < found:
                    found = (delay, job) if delay > 0.0 else (0.0, job)
        return found

    def pass_time(self, seconds: float) -> None:
        """Let the jobs run."""
        progress, speeds = self._progress, self._speeds
        progress[0] += seconds * speeds[0]
        progress[1] += seconds * speeds[1]

    def relay(
        self, seconds: float, owners: Sequence[int], running: list[list[int]], pending: list[list[int]]
    ) -> list[tuple[float, int]]:
        """Let CPU jobs end for so many seconds and the first after them, each followed by the next that is pending of its owner.

        Stops before the end of a GPU job, where a last one that is pending would follow, and where the first after them would
        take longer than a step.  Returns after how many seconds which job ended; time has passed until the last of them.
        """
        ends, end_of, left = self._ends[0], self._end_of, self._left
        begin, speed = self._progress[0], self._speeds[0]
        last, limit = begin + seconds * speed, begin + self._until_gpu_end() * speed
        longest = STEP * speed
        found: list[tuple[float, int]] = []
        end = begin
        while ends and (end < last or not found):
            next_end, job = ends[0]
            if end_of[job] != next_end:
                heappop(ends)
                continue
            queue = pending[owners[job]]
            if next_end >= limit or len(queue) < 2 or next_end > max(last, end + longest):
                break
            end = next_end
            follower = queue.pop()
            started = running[owners[job]]
            started.remove(job)
            started.append(follower)
            end_of[job] = None
            end_of[follower] = later = end + left[follower]
            heapreplace(ends, (later, follower))
            found.append(((end - begin) / speed, job))
        self._progress[0] = end
        self._progress[1] += (end - begin) / speed * self._speeds[1]
        return found

    def _until_gpu_end(self) -> float:
        for ends in self._ends[1:]:
            while ends and self._end_of[ends[0][1]] != ends[0][0]:
                heappop(ends)
            if ends:
                return (ends[0][0] - self._progress[1]) / self._speeds[1]
        return math.inf

    def finish(self, job: int) -> None:
        """Remove a job that has ended."""
        end = self._end_of[job]
        if end is not None:
            self._progress[self._kind[job]] = end  # without the rounding of its steps
            self._end_of[job] = None


@dataclass(slots=True)
class _Chosen:
    """The jobs chosen one by one."""

    jobs: list[int] = field(default_factory=list[int])
    cpus: float = 0.0
    gpus: dict[str, float] = field(default_factory=dict[str, float])
    by_project: dict[tuple[int, str], float] = field(default_factory=dict[tuple[int, str], float])
    peaks: list[float] = field(default_factory=list[float])
    counts: list[int] = field(default_factory=list[int])


class Picks:
    """The jobs that run together; they are started and stopped in ``rundown``."""

    def __init__(
        self, jobs: Sequence[ClientJob], projects: Sequence[QueueProject], devices: Devices, rundown: Rundown
    ) -> None:
        self._jobs, self._projects, self._devices, self._rundown = jobs, projects, devices, rundown
        self._limits = [p.limits for p in projects]
        share_sum = float_sum(p.share for p in projects)
        terms = [priority_terms(p.share, share_sum) for p in projects]
        #: per project, the rank of a job is weight * (part of all REC + charge) + offset
        self._weights, self._offsets = [each[0] for each in terms], [each[1] for each in terms]
        self._cpus = [job.cpus for job in jobs]
        self._owners = [job.project for job in jobs]
        self._equally_wide = len({job.cpus for job in jobs if not job.gpu}) == 1
        self.counts = {g.name: len(g.usable) for g in devices.gpus} | {CPU: devices.ncpus}
        self.used = dict.fromkeys(self.counts, 0.0)  #: instances in use, by device type
        self._least = {
            g.name: min((job.gpus for job in jobs if job.gpu == g.name), default=1.0) for g in devices.gpus
        }
        peak = devices.peak
        self._scale = PICK_CHARGE / peak if peak > 0 else 0.0  #: what a pick adds to the standing, per FLOP/s
        self._unit = devices.cpu_flops * self._scale  #: ... per CPU
        self._chosen = _Chosen(peaks=[0.0] * len(projects), counts=[0] * len(projects))
        self._queue_up()
        self._choose_again = bool(self._queues)
        self._levels: list[float] = []  #: credit to which the projects tend; empty: to be worked out
        self._order_matters = any(len({p for p, _ in queues}) > 1 for queues in self._queues.values())
        self._running: list[list[int]] = [[] for _ in projects]  #: CPU jobs, in queue order
        self._charges = [0.0] * len(projects)  #: CPUs that they use
        #: the charges with which a project's first waiting and its last running job are ranked
        self._firsts = [math.inf] * len(projects)
        self._lasts = [-math.inf] * len(projects)
        for p in range(len(projects)):
            self._charge(p, 0.0)
        self.contested = len(set(self._owners)) > 1  #: it matters what the projects have had
        #: so many equally wide jobs wait that it pays to look for how long they just follow each other
        self._crowded = self._equally_wide and sum(self._waiting) > CROWD * (devices.ncpus + len(projects))
        #: steps to go before looking again whether jobs just follow each other, and how many there were after the last vain look
        self._idle_looks = self._pause = 0
        self._changed = True  #: something has begun or ended, and nothing has taken its place

    def _queue_up(self) -> None:
        """Make the queues: those of which jobs are chosen one by one, and those of CPU jobs that are not."""
        kinds = [g.name for g in self._devices.gpus]
        limited = any(any(limits.app_max_concurrent.values()) for limits in self._limits)
        if limited:
            kinds.append(CPU)
        #: by device type, project and app
        self._queues: dict[str, dict[tuple[int, str], list[int]]] = {kind: {} for kind in kinds}
        self._pending: list[list[int]] = [[] for _ in self._projects]  #: the next at the end
        for position, job in enumerate(self._jobs):
            if job.gpu in self._queues:
                self._queues[job.gpu].setdefault((job.project, job.app_name), []).append(position)
            elif not job.gpu:
                self._pending[job.project].append(position)
        for queue in self._pending:
            queue.reverse()
        self._queues = {kind: queues for kind, queues in self._queues.items() if queues}
        by_group: dict[int, list[int]] = {}
        for p, project in enumerate(self._projects):
            if self._pending[p]:
                by_group.setdefault(project.group, []).append(p)
        self._groups = [by_group[group] for group in sorted(by_group, reverse=True)]
        self._group_of = {p: number for number, group in enumerate(self._groups) for p in group}
        #: per group, the jobs that wait and the CPUs in use
        self._waiting = [sum([len(self._pending[p]) for p in group]) for group in self._groups]
        self._used = [0.0] * len(self._groups)

    def settle(self, recs: Sequence[float]) -> None:
        """Let the right jobs run, given the projects' recent credit."""
        scale = 1.0 / (float_sum(recs) or 1.0)
        if self._choose_again:
            self._choose_again = self._order_matters
            self._choose([rec * scale for rec in recs])
            self._make_room()
        elif not (self.contested or self._changed):
            return
        self._changed = False
        used = self._chosen.cpus
        for number in range(len(self._groups)):
            used += self._settle_group(number, recs, scale, self._devices.ncpus - used)
        self.used[CPU] = used

    @property
    def steady(self) -> bool:
        """Return whether what runs stays the same until a job ends."""
        return not (self.contested or self._choose_again or self._crowded)

    def used_by(self, project: int, kind: str) -> float:
        """Return how many instances of a device type a project uses."""
        return self._chosen.by_project.get((project, kind), 0.0) if kind else self._charges[project]

    def running_of(self, project: int) -> int:
        """Return how many jobs of a project run."""
        return len(self._running[project]) + self._chosen.counts[project]

    def recs_after(self, recs: Sequence[float], seconds: float, half_life: float) -> list[float]:
        """Return the projects' recent credit after so many seconds of what runs now."""
        fade = 0.5 ** (seconds / half_life)
        gone = 1.0 - fade
        return [rec * fade + gone * level for rec, level in zip(recs, self._tendency(), strict=True)]

    def _tendency(self) -> list[float]:
        """Return the limit of the projects' recent credit if it runs on."""
        if not self._levels:
            flops = self._devices.cpu_flops
            rows = zip(self._chosen.peaks, self._charges, strict=True)
            self._levels = [LEVEL_PER_FLOP * (peak + flops * charge) for peak, charge in rows]
        return self._levels

    def relay(self, recs: Sequence[float], half_life: float) -> list[tuple[float, int]]:
        """Let jobs end and follow each other up to the end after which that may be wrong; returns when (in seconds) which ended.

        To be called when all is settled, which is to be done again then.
        """
        if self._choose_again or not self._crowded:
            return []
        if self._idle_looks:
            self._idle_looks -= 1
            return []
        seconds = math.inf
        if self.contested:
            fade = self._steady_fade(recs)
            seconds = -half_life * math.log2(fade) * (1.0 - _MARGIN) if fade > 0.0 else math.inf
        found = self._rundown.relay(seconds, self._owners, self._running, self._pending)
        for _, position in found:
            self._waiting[self._group_of[self._owners[position]]] -= 1
        self._pause = 0 if len(found) > 1 else min(2 * self._pause + 1, _LONGEST_PAUSE)
        self._idle_looks = self._pause
        return found

    def _steady_fade(self, recs: Sequence[float]) -> float:
        """Return what will be left of today's recent credit when the choice first has to change: 1 is now, 0 never."""
        fade = 0.0
        if float_sum(recs) <= 0.0:
            return 1.0
        levels = self._tendency()
        for group in self._groups:
            fade = self._next_crossing(group, recs, levels, fade)
        return fade

    def _next_crossing(
        self, group: Sequence[int], recs: Sequence[float], levels: Sequence[float], fade: float
    ) -> float:
        """Return ``fade``, or a greater one at which a job of a group that waits first gets before one that runs.

        The two whose ranks are worst at a ``fade`` cross before it; so the search goes from crossing to crossing towards now.
        """
        weights, offsets, first, last = self._weights, self._offsets, self._firsts, self._lasts
        sum_now, sum_later = float_sum(recs), float_sum(levels)
        for _ in range(_MAX_CROSSINGS):
            coming = [rec * fade + level * (1.0 - fade) for rec, level in zip(recs, levels, strict=True)]
            p, soonest, q, latest = self._outermost(group, coming, 1.0 / (float_sum(coming) or 1.0))
            if soonest >= latest:
                return fade
            ahead = first[p] * weights[p] + offsets[p] - last[q] * weights[q] - offsets[q]
            at_end = levels[p] * weights[p] - levels[q] * weights[q] + ahead * sum_later
            now = recs[p] * weights[p] - recs[q] * weights[q] + ahead * sum_now
            if now <= 0.0 or not fade < (crossing := at_end / (at_end - now)) < 1.0:
                break
            fade = crossing
        return 1.0

    def finish(self, position: int) -> None:
        """Remove a job that has ended."""
        job = self._jobs[position]
        self._rundown.finish(position)
        if job.gpu in self._queues:
            self._queues[job.gpu][job.project, job.app_name].remove(position)
            self._chosen.jobs.remove(position)
            self._choose_again = True
        else:
            self._replace(job.project, position)

    # -- beginnings of queues -----------------------------------------------------------------------------------------

    def _replace(self, p: int, position: int) -> None:
        """Let a project's next job take the place of one that has ended where all are as wide: mostly that is the right one."""
        running, pending = self._running[p], self._pending[p]
        running.remove(position)
        if self._equally_wide and len(pending) > 1:
            position = pending.pop()
            running.append(position)
            self._rundown.start(position)
            self._waiting[self._group_of[p]] -= 1
        else:
            self._charge(p, -self._cpus[position])

    def _charge(self, p: int, cpus: float) -> None:
        """Charge a project for more or fewer CPUs than before."""
        self._changed = True
        self._levels = []
        running, limit = self._running[p], self._limits[p].max_concurrent
        if cpus:
            self._used[self._group_of[p]] += cpus
        self._charges[p] = charge = self._charges[p] + cpus if running else 0.0
        may_start = self._pending[p] and (not limit or len(running) + self._chosen.counts[p] < limit)
        others = self._chosen.peaks[p] * self._scale
        self._firsts[p] = charge * self._unit + others if may_start else math.inf
        self._lasts[p] = (charge - self._cpus[running[-1]]) * self._unit + others if running else -math.inf

    def _settle_group(self, number: int, recs: Sequence[float], scale: float, room: float) -> float:
        """Let the right CPU jobs of a group of projects run on ``room`` CPUs; returns the CPUs that they use."""
        group, used = self._groups[number], self._used[number]
        if used < room and not self._waiting[number]:
            return used
        while True:
            p, soonest, q, latest = self._outermost(group, recs, scale)
            if used < room and soonest < math.inf:
                self._start(p)
            elif latest > -math.inf:
                least = used - self._cpus[self._running[q][-1]]
                if least < room and (soonest, p) >= (latest, q):
                    return used
                self._stop(q)
            else:
                return used
            used = self._used[number]

    def _outermost(
        self, group: Sequence[int], recs: Sequence[float], scale: float
    ) -> tuple[int, float, int, float]:
        """Return whose waiting job of a group has the first rank, that rank, whose running one has the last, and that rank."""
        weights, offsets, first, last = self._weights, self._offsets, self._firsts, self._lasts
        p, soonest, q, latest = group[0], math.inf, group[0], -math.inf
        for i in group:
            standing, weight, offset = recs[i] * scale, weights[i], offsets[i]
            rank = (standing + first[i]) * weight + offset
            if rank < soonest:
                p, soonest = i, rank
            rank = (standing + last[i]) * weight + offset
            if rank >= latest:
                q, latest = i, rank
        return p, soonest, q, latest

    def _make_room(self) -> None:
        """Choose again the CPU jobs beside those that were chosen one by one."""
        for p in self._group_of:
            limit = self._limits[p].max_concurrent
            while limit and self._running[p] and len(self._running[p]) + self._chosen.counts[p] > limit:
                self._stop(p)
            self._charge(p, 0.0)

    def _start(self, p: int) -> None:
        position = self._pending[p].pop()
        self._running[p].append(position)
        self._rundown.start(position)
        self._waiting[self._group_of[p]] -= 1
        self._charge(p, self._cpus[position])

    def _stop(self, p: int) -> None:
        position = self._running[p].pop()
        self._pending[p].append(position)
        self._rundown.stop(position)
        self._waiting[self._group_of[p]] += 1
        self._charge(p, -self._cpus[position])

    # -- one by one ---------------------------------------------------------------------------------------------------

    def _choose(self, standing: Sequence[float]) -> None:
        """Choose one by one what cannot be mended."""
        before = set(self._chosen.jobs)
        together = Together(self._limits, self._devices)
        chosen = _Chosen(peaks=[0.0] * len(self._projects), counts=[0] * len(self._projects))
        if CPU in self._queues:
            self._charges = [0.0] * len(self._projects)
        for kind in self._queues:
            self._choose_kind(kind, standing, together, chosen)
        for gpu in self._devices.gpus:
            self.used[gpu.name] = together.instances_full(gpu.name, self._least[gpu.name])
        self._chosen = chosen
        self._levels = []
        for position in before.difference(chosen.jobs):
            self._rundown.stop(position)
        for position in chosen.jobs:
            if position not in before:
                self._rundown.start(position)

    def _first_of_apps(self, kind: str) -> dict[int, list[tuple[int, int, list[int]]]]:
        """Return, by project, a heap of each app's first job, with its place in the app's queue."""
        found: dict[int, list[tuple[int, int, list[int]]]] = {}
        for (p, _), queue in self._queues[kind].items():
            if queue:
                heappush(found.setdefault(p, []), (queue[0], 0, queue))
        return found

    def _choose_kind(self, kind: str, standing: Sequence[float], together: Together, chosen: _Chosen) -> None:
        charges = self._charges

        def rank(p: int) -> tuple[int, float, int]:
            x = standing[p] + chosen.peaks[p] * self._scale + (0.0 if kind else charges[p] * self._unit)
            return -self._projects[p].group, x * self._weights[p] + self._offsets[p], p

        pending = self._first_of_apps(kind)
        most = self.counts[kind]
        while pending and (chosen.gpus.get(kind, 0.0) if kind else chosen.cpus) < most:
            best = min(pending, key=rank)
            first = pending[best]
            position, number, queue = first[0]
            job = self._jobs[position]
            refusal = together.refusal(job)
            if refusal == "project" or (refusal is not None and len(first) == 1):
                del pending[best]
                continue
            if refusal is not None:  # another app of the project may still have room
                heappop(first)
                continue
            if number + 1 < len(queue):
                heapreplace(first, (queue[number + 1], number + 1, queue))
            elif len(first) > 1:
                heappop(first)
            else:
                del pending[best]
            together.add(job)
            chosen.jobs.append(position)
            chosen.cpus += job.cpus
            chosen.counts[best] += 1
            if kind:
                key = (best, kind)
                chosen.by_project[key] = chosen.by_project.get(key, 0.0) + job.gpus
                chosen.gpus[kind] = chosen.gpus.get(kind, 0.0) + job.gpus
                chosen.peaks[best] += self._devices.job_peak(cpus=job.cpus, gpu=kind, gpus=job.gpus)
            else:
                charges[best] += job.cpus
