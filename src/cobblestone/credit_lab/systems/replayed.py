"""Systems with ``claim``, ``grant`` and ``learn``: the book that the server keeps is replayed over the tape of a run.

Built-in systems are replayed by the compiled twin, which tests hold equal to the policy; others by the policy itself.
"""

from __future__ import annotations

import time

import numpy as np

from cobblestone.credit_lab.figures import ReplayOptions
from cobblestone.credit_lab.replay import replay
from cobblestone.credit_lab.systems.pay import Pay, at_once
from cobblestone.credit_lab.systems.tape import Tape, job_log
from cobblestone.credit_lab.vectorised import grants
from cobblestone.domain.errors import ConfigError
from cobblestone.policy.credit.registry import CREDIT_SYSTEMS
from cobblestone.policy.credit.system import CreditSystem


def pay_by_replay(tape: Tape, system: CreditSystem) -> Pay:
    """Return what a system pays on a tape.  As designed, the third system asks computers to prove themselves."""
    options = ReplayOptions(host_scale_check=system.name == "creditnew-designed")
    log = job_log(tape)
    began = time.perf_counter()
    state = 0
    granted = None
    if CREDIT_SYSTEMS.get(system.name) is system:
        try:
            granted, state = grants(log, system.name, options)
        except ConfigError:  # no twin
            granted = None
    if granted is None:
        granted = np.array(replay(log, system, options).granted)
    return at_once(tape, granted, seconds=time.perf_counter() - began, state_bytes=state)
