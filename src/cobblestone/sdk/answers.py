"""A folder with the answers of jobs: a folder for each job, and a list that says which is whose."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

from cobblestone.domain.errors import JobError
from cobblestone.domain.file_names import folder_name

if TYPE_CHECKING:
    from cobblestone.sdk.batch import JobResult

LIST_NAME = "jobs.csv"
COLUMNS = (
    "job", "name", "folder", "status", "inputs", "arguments", "result", "host", "run_time", "credit", "error",
)  # fmt: skip


class AnswerFolder:
    """Writes outputs below a folder, each job's into one of its own.

    The folders are called as the jobs.  Where two jobs have one name (inputs of one file name from different folders), the
    second one's has its number too.  ``jobs.csv`` lists each job with its folder (none without an answer), inputs and arguments
    (with a semicolon between them), and where the answer comes from; so writing again finds the same places.
    """

    def __init__(self, folder: str | Path) -> None:
        """Open or make the folder.

        Raises:
            JobError: it cannot be made, or is no folder.
        """
        self.path = Path(folder)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise JobError(
                f"{self.path} cannot be used as a folder for answers: {error.strerror}."
            ) from error
        self._list = self.path / LIST_NAME
        self._folders: dict[int, str] = {}  #: by job; empty: it has no answer
        if self._list.exists():
            with self._list.open(newline="", encoding="utf-8") as file:
                for row in csv.DictReader(file):
                    if str(row.get("job")).isdecimal():
                        self._folders[int(row["job"])] = row.get("folder") or ""
        self._taken = {
            name.casefold() for name in self._folders.values() if name
        }  # some disks do not tell a from A

    def save(self, result: JobResult) -> list[Path]:
        """Write all outputs of a job, if it has an answer, and list it; return their paths."""
        if not result.succeeded:
            self._enlist(result, "")
            return []
        target = self.path / self._folder_of(result)
        target.mkdir(exist_ok=True)
        for name in result.outputs:
            result.outputs.save(name, target / name)
        return [target / name for name in result.outputs]

    def _folder_of(self, result: JobResult) -> str:
        known = self._folders.get(result.id)
        if known and known == Path(known).name:  # the list may have been edited
            return known
        name = folder_name(result.name, f"job_{result.id}")
        if name.casefold() in self._taken or name == LIST_NAME:
            name = f"{name}~{result.id}"
        self._taken.add(name.casefold())
        self._enlist(result, name)
        return name

    def _enlist(self, result: JobResult, folder: str) -> None:
        if self._folders.get(result.id) == folder:
            return
        self._folders[result.id] = folder
        new = not self._list.exists()
        with self._list.open("a", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS)
            if new:
                writer.writeheader()
            writer.writerow(
                {
                    "job": result.id,
                    "name": result.name,
                    "folder": folder,
                    "status": "done" if result.succeeded else "failed",
                    "inputs": "; ".join(result.inputs),
                    "arguments": "; ".join(f"{name}={value}" for name, value in result.args.items()),
                    "result": result.result,
                    "host": result.host,
                    "run_time": result.run_time,
                    "credit": result.credit,
                    "error": result.error,
                }
            )
