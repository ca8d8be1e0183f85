"""Commands in the test's own process: the same code, without a second of imports for each."""

from __future__ import annotations

import contextlib
import io
import subprocess

from cobblestone.cli import run_command


def run_here(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run ``cobblestone ...``.  ``check``: it must end well."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run_command(arguments)
    done = subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())
    if check:
        assert status == 0, done.stdout + done.stderr
    return done
