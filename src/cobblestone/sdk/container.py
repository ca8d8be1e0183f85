"""Programs that are sent along in a container, for Linux computers that have Podman or Docker."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cobblestone.api_schema.apps import NewVersion, Version, VersionFileBody
from cobblestone.api_schema.files import StoredFile
from cobblestone.domain.apps import CONTAINER_CLASS
from cobblestone.domain.errors import JobError
from cobblestone.launcher import app_description
from cobblestone.launcher.container import IMAGE_FILE, pack_image
from cobblestone.sdk.app_package import Command, command_files
from cobblestone.sdk.connection import Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerCommand(Command):
    """A command that runs in a container: its words are looked up in there, or among the files."""

    source: Path  #: the image as it was saved

    def check(self) -> None:
        """Find mistakes before anything is sent, but for those of the image; raises JobError."""
        if self.plan_class:
            raise JobError(
                f"--plan-class {self.plan_class}: containers have one of their own, {CONTAINER_CLASS}. To ask for more of the"
                f" computers, write it into plan_classes.toml as [{CONTAINER_CLASS}] with docker = true."
            )
        self.description({})

    def description(self, container: Mapping[str, str]) -> bytes:
        """Return what the launcher is told.  Memory and disk are watched, also where the engine cannot limit them."""
        return app_description(
            self.words,
            files=self.check_names(),
            stdout=self.stdout,
            optional_outputs=self.optional_outputs,
            enforce_memory=True,
            enforce_disk=True,
            container=container,
        )


def container_version(connection: Connection, command: ContainerCommand) -> NewVersion:
    """Pack and upload what a version with a container consists of; the version for a request.

    Raises:
        JobError: the image cannot be used, or the options do not fit.
    """
    with tempfile.TemporaryDirectory(prefix="cobblestone-") as folder:
        image = pack_image(command.source, Path(folder))
        for platform in command.platforms:
            if platform != image.platform:
                raise JobError(f"--platform {platform}: the image runs on {image.platform} only.")
        path = f"/files/{image.sha256}"
        stored = connection.put_file(path, image.path, StoredFile, name=image.file_name)
    files = command_files(connection, command.description(image.description), command.check_names())
    archive = VersionFileBody(file=stored.name, open_name=IMAGE_FILE)
    return NewVersion(platform=image.platform, plan_class=CONTAINER_CLASS, files=[*files, archive])


def brings_container(versions: Sequence[Version]) -> bool:
    """Whether one of the versions has a container."""
    return any(file.open_name == IMAGE_FILE for version in versions for file in version.files)
