"""``app_info.xml``: programs of the volunteer's own for a project (the anonymous platform).

Source: BOINC's ``client/cs_apps.cpp`` and its page on the anonymous platform (names and defaults: facts).
"""

from __future__ import annotations

from dataclasses import dataclass

from cobblestone.domain.values import changed
from cobblestone.wire.job_description import AppBlock, AppVersionBlock
from cobblestone.wire.lenience import Lenience
from cobblestone.wire.reply_reader import read_app, read_app_version, read_file
from cobblestone.wire.tag_tree import Node, read_tree

MAX_APP_INFO_BYTES = 1024 * 1024
MAX_ENTRIES = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnApps:
    """What the file says."""

    apps: tuple[AppBlock, ...] = ()
    versions: tuple[AppVersionBlock, ...] = ()
    executables: frozenset[str] = frozenset()  #: names of files that are programs
    problems: tuple[str, ...] = ()  #: sentences about versions that cannot be used


def read_app_info(body: bytes, *, platform: str, cpu_flops: float) -> OwnApps:
    """Read the file; ``platform`` and ``cpu_flops`` (operations per second of a CPU) are for versions that do not say theirs.

    Raises RemoteProtocolError for what is no such file.
    """
    root = read_tree(body, "app_info", max_bytes=MAX_APP_INFO_BYTES)
    notes: list[Lenience] = []
    apps = tuple(read_app(node, notes) for node in _some(root, "app"))
    files = [read_file(node, notes) for tag in ("file_info", "file") for node in _some(root, tag)]
    versions: list[AppVersionBlock] = []
    problems: list[str] = []
    for node in _some(root, "app_version"):
        version = read_app_version(node, notes)
        problem = _problem(version, {app.name for app in apps}, {file.name for file in files})
        if problem:
            problems.append(f"the version {version.version_num} of the app {version.app_name!r} {problem}")
            continue
        flops = version.flops if node.has("flops") else max(version.avg_ncpus, 1.0) * cpu_flops
        versions.append(changed(version, platform=version.platform or platform, flops=flops))
    return OwnApps(
        apps=apps,
        versions=tuple(versions),
        executables=frozenset(file.name for file in files if file.executable),
        problems=tuple(problems),
    )


def _some(root: Node, tag: str) -> list[Node]:
    return list(root.all(tag))[:MAX_ENTRIES]


def _problem(version: AppVersionBlock, apps: set[str], files: set[str]) -> str:
    if version.app_name not in apps:
        return "belongs to no <app> of the file"
    if not version.file_refs:
        return "has no <file_ref>"
    strangers = [ref.file_name for ref in version.file_refs if ref.file_name not in files]
    return f"uses files without a <file_info>: {', '.join(strangers)}" if strangers else ""
