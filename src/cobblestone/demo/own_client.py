"""Runs cobblestone's own client in a separate folder, and controls it through its JSON interface."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

from cobblestone.client.remote.access import ACCESS_FILE, ask, local_address
from cobblestone.demo.stock_client import ClientError, ClientTask, LoggedClient, free_port, write_wishes
from cobblestone.domain.errors import CobblestoneError

START_SECONDS = 60.0


class OwnClient(LoggedClient):
    """One client process in one data directory; has the methods of `StockClient` that the demonstration needs."""

    kind = "cobblestone's own client"
    stop_seconds = 75.0  # its jobs save their work

    def __init__(self, folder: Path, *, ncpus: int = 1) -> None:
        super().__init__(folder)
        write_wishes(folder, ncpus=ncpus)

    def start(self) -> None:
        """Start the client and wait until it answers.

        Raises:
            ClientError: it does not come up.
        """
        (self.folder / ACCESS_FILE).unlink(missing_ok=True)
        command = (sys.executable, "-m", "cobblestone", "client", "run", str(self.folder))
        self.launch(*command, "--gui-port", str(free_port()))
        self.wait_for(self._answers, seconds=START_SECONDS, what="start")

    def _answers(self) -> bool:
        with contextlib.suppress(CobblestoneError):
            self._ask("status")
            return True
        return False

    def attach(self, url: str, authenticator: str) -> None:
        """Attach to a project."""
        self._ask("attach", url=url, key=authenticator)

    def attach_manager(self, url: str, email: str, password: str) -> None:
        """Attach to an account manager, which chooses the projects."""
        self._ask("manager", url=url, login=email, password=password)

    def update(self, url: str) -> None:
        """Request a contact soon."""
        with contextlib.suppress(CobblestoneError):
            self._ask("update", project=url)

    def tasks(self) -> list[ClientTask]:
        """Return all tasks, as the demonstration shows them.

        Raises:
            ClientError: the client does not answer.
        """
        try:
            rows = self._ask("tasks")
        except CobblestoneError as error:
            raise ClientError(str(error)) from error
        return [
            ClientTask(
                name=row["name"],
                state=row["state"],
                active_task_state="EXECUTING" if row["state"] == "running" else "",
                fraction_done=row["fraction_done"],
                cpu_time=row["cpu_time"],
            )
            for row in rows
        ]

    def project_status(self) -> dict[str, str]:
        """Credit at the first project, by BOINC's names."""
        (row, *_) = self._ask("projects")
        return {
            f"{whose}_{wire}": str(row[f"{whose}_{ours}"])
            for whose in ("user", "host")
            for wire, ours in (("total_credit", "credit"), ("expavg_credit", "average"))
        }

    def _ask(self, command: str, **given: Any) -> Any:
        return ask(local_address(self.folder), command, **given)
