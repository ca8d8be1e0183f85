"""What jobs will cost, and when they will be done: estimates for whoever submits them."""

from __future__ import annotations

from cobblestone.domain.values import value

MIN_FINISHED = 5
"""From so many finished jobs on, a batch's own pace tells its end."""
USUAL_SPEED = 3e9
"""Operations per second of a core, where no computer has called yet."""


@value(kw_only=True)
class Cost:
    """What some finished work took."""

    cpu_seconds: float = 0.0  #: of all cores
    operations: float = 0.0  #: as estimated when it was submitted

    def seconds_for(self, operations: float, *, speed: float) -> float:
        """Return CPU seconds for other work: by what this took; if it is nothing, by ``speed`` (operations per second)."""
        if self.cpu_seconds > 0 and self.operations > 0:
            return operations * self.cpu_seconds / self.operations
        return operations / (speed or USUAL_SPEED)


def expected_end(
    *,
    now: float,
    n_left: int,
    job_seconds: float,
    cores: float,
    n_ahead: int = 0,
    n_finished: int = 0,
    since: float = 0.0,
) -> float | None:
    """Return when a batch will be done (Unix seconds); None: nothing tells.

    A batch goes on at its own pace once it has one.  Before that, its jobs and those ahead of it are divided among all cores,
    and none ends before one job's time has passed: the earliest end that is likely.

    Args:
        now: Unix seconds.
        n_left: its jobs that are not finished.
        job_seconds: CPU seconds that one of them takes, with its repetitions.
        cores: of all computers that call.
        n_ahead: jobs of others that wait or run.
        n_finished: its jobs that are finished.
        since: when it was submitted (Unix seconds).

    """
    if n_finished >= MIN_FINISHED and now > since:
        return now + n_left * (now - since) / n_finished
    if cores <= 0:
        return None
    return now + max((n_left + n_ahead) * job_seconds / cores, job_seconds)
