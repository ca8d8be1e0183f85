"""Our side of the shared segment.

The file is read and written, not mapped: a job that cuts its segment short would kill a client that maps it (SIGBUS), while a
read only comes back short.  On Linux both ways see the same pages.
"""

from __future__ import annotations

import os
from collections import deque

from cobblestone.wire.task_messages import (
    CHANNEL_BYTES,
    HAVE_TRICKLE_DOWN,
    MAX_MESSAGE,
    SEGMENT_BYTES,
    UPLOAD_FILE_STATUS,
    Channel,
    Control,
)

_OPPOSITES = {Control.SUSPEND: Control.RESUME, Control.RESUME: Control.SUSPEND}


class Segment:
    """Eight channels in an open file; orders that do not fit wait in a queue."""

    def __init__(self, file: int) -> None:
        self.file = file
        self.orders: deque[Control] = deque()
        self.order_unread_since: float | None = None
        """Since when the job has had an order that it has not read."""
        self.listens = False
        """Whether it ever read one."""
        self._pending_down: set[str] = set()

    def close(self) -> None:
        """Close the file."""
        os.close(self.file)

    def receive(self, channel: Channel) -> str:
        """Take the unread message of a channel; empty if there is none."""
        start = channel * CHANNEL_BYTES
        data = os.pread(self.file, CHANNEL_BYTES, start)
        if not data or not data[0]:
            return ""
        self._put(start, b"\0")
        return data[1:].split(b"\0", 1)[0].decode("ascii", "replace")

    def is_free(self, channel: Channel) -> bool:
        """Whether the last message has been read."""
        return os.pread(self.file, 1, channel * CHANNEL_BYTES) == b"\0"

    def send(self, channel: Channel, text: str) -> bool:
        """Leave a message if the last one has been read."""
        if not self.is_free(channel):
            return False
        data = text.encode("ascii", "replace")[:MAX_MESSAGE] + b"\0"
        start = channel * CHANNEL_BYTES
        self._put(start + 1, data)
        self._put(start, b"\1")  # last: it makes the message valid
        return True

    def _put(self, start: int, data: bytes) -> None:
        if os.fstat(self.file).st_size >= SEGMENT_BYTES:  # do not make a cut file grow again, hole by hole
            os.pwrite(self.file, data, start)

    def order(self, control: Control) -> None:
        """Queue an order.  A suspension and a resumption that have both not been read cancel out."""
        if self.orders and self.orders[-1] == _OPPOSITES.get(control):
            self.orders.pop()
        elif control not in self.orders:
            self.orders.append(control)

    def announce(self, message: str) -> None:
        """Tell the job of a trickle or of a finished upload, as soon as it has read the last such message."""
        self._pending_down.add(message)

    def deliver(self, now: float) -> None:
        """Hand over what waits; to be called once a second."""
        if self.is_free(Channel.CONTROL):
            if self.order_unread_since is not None:
                self.listens = True
            self.order_unread_since = None
            if self.orders:
                self.send(Channel.CONTROL, self.orders.popleft())
                self.order_unread_since = now
        if self._pending_down:
            text = "".join(
                each for each in (HAVE_TRICKLE_DOWN, UPLOAD_FILE_STATUS) if each in self._pending_down
            )
            if self.send(Channel.TRICKLE_DOWN, text):
                self._pending_down.clear()
