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
_HEADER = ("job", "name", "folder")


class AnswerFolder:
    """Writes outputs below a folder, each job's into one of its own.

    The folders are called as the jobs.  Where two jobs have one name (inputs of one file name from different folders), the
    second one's has its number too.  ``jobs.csv`` lists job, name and folder, so writing again finds the same places.
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
        self._folders: dict[int, str] = {}
        if self._list.exists():
            with self._list.open(newline="", encoding="utf-8") as file:
                for row in csv.DictReader(file):
                    if str(row.get("job")).isdecimal() and row.get("folder"):
                        self._folders[int(row["job"])] = row["folder"]
        self._taken = {name.casefold() for name in self._folders.values()}  # some disks do not tell a from A

    def save(self, result: JobResult) -> list[Path]:
        """Write all outputs of a job; return their paths."""
        target = self.path / self._folder_of(result)
        target.mkdir(exist_ok=True)
        for name in result.outputs:
            result.outputs.save(name, target / name)
        return [target / name for name in result.outputs]

    def _folder_of(self, result: JobResult) -> str:
        known = self._folders.get(result.id)
        if known is not None and known == Path(known).name:  # the list may have been edited
            return known
        name = folder_name(result.name, f"job_{result.id}")
        if name.casefold() in self._taken or name == LIST_NAME:
            name = f"{name}~{result.id}"
        self._folders[result.id] = name
        self._taken.add(name.casefold())
        new = not self._list.exists()
        with self._list.open("a", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            if new:
                writer.writerow(_HEADER)
            writer.writerow((result.id, result.name, name))
        return name
