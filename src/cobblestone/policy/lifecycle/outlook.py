"""What jobs will cost, and when they will be done: estimates for whoever submits them."""

from __future__ import annotations

from cobblestone.domain.values import value

#: From so many finished jobs on, a batch's own pace tells its end.
MIN_FINISHED = 5
#: Operations per second of a core, where no computer has called yet.
USUAL_SPEED = 3e9


@value()
class Supply:
    """What a project has for jobs at one moment."""

    now: float  #: Unix seconds
    cores: float  #: that compute on average, on all computers that call
    speed: float  #: of one, operations per second
    n_unsent: int  #: jobs that wait

    def seconds_for(self, operations: float, *, cpu_seconds: float, of_operations: float) -> float:
        """Return CPU seconds for ``operations``: by what others took; if that is nothing, by the speed of the cores."""
        if cpu_seconds > 0 and of_operations > 0:
            return operations * cpu_seconds / of_operations
        return operations / (self.speed or USUAL_SPEED)

    def end_of(
        self, n_left: int, job_seconds: float, *, n_finished: int = 0, since: float = 0.0
    ) -> float | None:
        """Return when a batch will be done (Unix seconds); None: nothing tells, or it is done.

        A batch goes on at its own pace once it has one.  Before that, its jobs and all that wait are divided among the cores,
        and none ends before one job's time has passed: the earliest end that is likely.

        Args:
            n_left: its jobs that are not finished.
            job_seconds: CPU seconds that one of them takes, with its repetitions.
            n_finished: its jobs that are finished.
            since: when it was submitted (Unix seconds); 0: it is not yet.

        """
        if not n_left:
            return None
        if n_finished >= MIN_FINISHED and self.now > since:
            return self.now + n_left * (self.now - since) / n_finished
        if self.cores <= 0:
            return None
        n_waiting = max(self.n_unsent, n_left) if since else self.n_unsent + n_left
        return self.now + max(n_waiting / self.cores, 1.0) * job_seconds
