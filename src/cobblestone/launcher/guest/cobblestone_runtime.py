"""Progress, checkpoints and messages for a Python program that runs in WebAssembly.

The functions are those of the module of the same name that programs under the volunteer's own Python get, so a program runs
either way.  They speak to the native launcher through small files in the program's folder; without a launcher nothing happens.
"""

from __future__ import annotations

import os
import re
import time

__all__ = [
    "checkpoint",
    "progress",
    "receive_trickles",
    "time_to_checkpoint",
    "trickle",
    "upload_now",
    "uploaded",
]

MAX_TRICKLE_BYTES = 60000


class _Job:
    """What has been told to the launcher so far."""

    def __init__(self) -> None:
        self.folder = os.environ.get("COBBLESTONE_FOLDER", "")
        self.told = -1.0
        self.announced = False
        self.trickles = 0

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def write(self, name: str, text: str) -> None:
        with open(self.path(name + ".new"), "w") as file:
            file.write(text)
        os.replace(self.path(name + ".new"), self.path(name))

    def progress(self, fraction: float) -> None:
        """Tell which fraction (0 to 1) of the job is done.  Cheap: call it as often as you like."""
        value = float(fraction)
        if value != value:
            raise ValueError("progress() needs a number from 0 to 1, got NaN")
        if self.folder and (value > self.told + 0.001 or value < self.told or value >= 1.0 > self.told):
            self.told = value
            self.write("cobblestone_progress", "%.6f\n" % min(max(value, 0.0), 1.0))

    def time_to_checkpoint(self) -> bool:
        """Say whether to save the state now: the volunteer's period is over, or the client asks the job to stop."""
        if not self.folder:
            return False
        if not self.announced:
            self.announced = True
            self.write("cobblestone_checkpoints", "")
        return os.path.exists(self.path("cobblestone_time_to_checkpoint"))

    def checkpoint(self) -> None:
        """Tell that the state is safely in a file: the program is started again, as it would be after an interruption."""
        if not self.folder:
            return
        try:
            with open(self.path("cobblestone_checkpoint")) as file:
                last = int(file.read())
        except (OSError, ValueError):
            last = 0
        self.write("cobblestone_checkpoint", "%d\n" % (last + 1))
        try:
            os.remove(self.path("cobblestone_time_to_checkpoint"))
        except FileNotFoundError:
            pass

    def trickle(self, variety: str, text: str) -> None:
        """Send a message to the project while the job runs; ``variety`` is a word that says what kind it is.

        A job that goes on from a checkpoint may send one a second time.

        Raises:
            ValueError: the variety or the text cannot be sent.
        """
        if not re.match(r"[A-Za-z0-9_.\-]{1,80}\Z", variety):
            raise ValueError("trickle(): the variety %r must be 1 to 80 letters, digits, _ - ." % variety)
        if len(text.encode("utf-8")) > MAX_TRICKLE_BYTES:
            raise ValueError("trickle(): the text is longer than %d bytes" % MAX_TRICKLE_BYTES)
        if "\0" in text or "</msg_from_host>" in text:
            raise ValueError("trickle(): the text must not contain NUL or </msg_from_host>")
        if self.folder:
            self.trickles += 1
            name = "cobblestone_trickle_up_%019d_%06d" % (time.time_ns(), self.trickles)
            self.write(name, "<variety>%s</variety>\n%s\n" % (variety, text))

    def receive_trickles(self) -> list[str]:
        """Return no messages: none reach a program in WebAssembly, whose answer may not depend on them."""
        return []

    def upload_now(self, name: str) -> None:
        """Leave an output to the end of the job, with all others: those of WebAssembly are not uploaded before."""

    def uploaded(self, name: str) -> bool:
        """Return False: see `upload_now`."""
        return False


_job = _Job()
checkpoint = _job.checkpoint
progress = _job.progress
receive_trickles = _job.receive_trickles
time_to_checkpoint = _job.time_to_checkpoint
trickle = _job.trickle
upload_now = _job.upload_now
uploaded = _job.uploaded
