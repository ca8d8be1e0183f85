"""``cobblestone app version``: versions of an app, one for each platform and plan class."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cobblestone.cli.options import Common
from cobblestone.cli.parameters import Argument, Commands, Option
from cobblestone.cli.work import app_options as o
from cobblestone.cli.work.program_options import FilesOption
from cobblestone.domain.apps import PLATFORMS

if TYPE_CHECKING:
    from cobblestone.api_schema.apps import Version

commands = Commands(help="Versions of an app, one for each platform and plan class.")


def unsigned_lines(added: Version) -> list[str]:
    """Return how to sign an unsigned version."""
    if added.signed:
        return ["It is signed and ready to be sent."]
    return [
        "It is unsigned, since the private key is not here: it is not sent until signatures are imported. Run:",
        "  cobblestone key manifest DIR                      (here)",
        "  cobblestone key sign DIR --key PRIVATEKEYFILE     (on the machine with the private key; copy DIR there)",
        "  cobblestone key import DIR                        (here, after copying DIR back)",
    ]


@commands.verb("add")
def add(
    name: o.NameArgument,
    platform: Annotated[str, Option(help=f"One of {', '.join(PLATFORMS[:6])} …")],
    main: Annotated[Path, Option(metavar="FILE", help="The executable.")],
    files: FilesOption = None,
    plan_class: Annotated[str, Option(help="A class of plan_classes.toml.")] = "",
    command_line: Annotated[str, Option(help="Options for this version only.")] = "",
    copy_files: Annotated[
        bool,
        Option("--copy-files", help="Copy --files into the job's folder; else the program resolves links."),
    ] = False,
    rollout: o.RolloutOption = None,
    common: Common = Common(),
) -> None:
    """Add the executables of a program that uses the BOINC API."""
    out = common.out
    if platform not in PLATFORMS:
        close = difflib.get_close_matches(platform, PLATFORMS, n=1)
        out.warn(
            f"{platform} is not one of the usual platforms{f'; did you mean {close[0]}?' if close else '.'}"
            f" Usual: {', '.join(PLATFORMS)}."
        )
    matched = ""
    with common.connect() as connected:
        for each in connected.plan_classes() if plan_class else []:
            if each.name == plan_class:
                matched = f"{plan_class} would match {each.hosts_matched} of {each.hosts_known} hosts."
                if each.hosts_known and not each.hosts_matched:
                    out.warn(f"No known computer can run it: {matched} See: cobblestone app plan-classes")
        added = connected.add_native_version(
            name,
            platform=platform,
            main=main,
            files=files or [],
            plan_class=plan_class,
            command_line=command_line,
            copy_files=copy_files,
            rollout=o.parts(rollout),
        )
    out.show(
        added,
        lines=[
            f"Added version {added.number} of {name} for {platform} {plan_class}".rstrip() + ".",
            *([matched] if matched else []),
            *unsigned_lines(added),
        ],
        essential=[added.id],
    )


@commands.verb("list")
def list_versions(name: o.NameArgument, common: Common) -> None:
    """List all versions of an app."""
    found = common.ask(lambda connected: connected.versions(name))
    common.out.listing(
        found,
        {
            "id": lambda each: each.id,
            "version": lambda each: each.number,
            "platform": lambda each: each.platform,
            "plan class": lambda each: each.plan_class,
            "state": lambda each: (
                "deprecated" if each.deprecated else "signed" if each.signed else "unsigned"
            ),
            "files": lambda each: ", ".join(file.open_name for file in each.files),
        },
        empty=f"{name} has no version yet. Add one with: cobblestone app version add {name} --platform P --main FILE",
    )


@commands.verb("deprecate")
def deprecate(
    version_id: Annotated[int, Argument(metavar="ID", help="See `app version list`.")],
    undo: Annotated[bool, Option("--undo", help="Send it again.")] = False,
    common: Common = Common(),
) -> None:
    """Stop sending a version."""
    changed = common.ask(lambda connected: connected.deprecate_version(version_id, undo=undo))
    state = "is sent again" if undo else "is no longer sent"
    common.out.done(
        changed, f"Version {changed.number} of {changed.app} for {changed.platform} {state}.", changed.id
    )


VersionArgument = Annotated[int, Argument(metavar="ID", help="See `app version list`.")]


@commands.verb("rollout")
def start_rollout(
    version_id: VersionArgument,
    stages: Annotated[
        str, Option(metavar="LIST", help="Growing parts of the computers, in per cent.")
    ] = "1,10,50,100",
    max_error_rate: Annotated[
        float, Option(min=0, max=1, help="Hold the version when more than this share of its results fails.")
    ] = 0.1,
    min_results: Annotated[int, Option(min=1, help="Results required before the next stage.")] = 20,
    min_hours: Annotated[float, Option(min=0, help="Minimum duration of a stage.")] = 1.0,
    common: Common = Common(),
) -> None:
    """Roll a version out to growing parts of the computers, as long as it works there."""
    parts = o.parts(stages)
    found = common.ask(
        lambda connected: connected.operation.start_rollout(
            version_id, parts, max_error_rate=max_error_rate, min_results=min_results, min_hours=min_hours
        )
    )
    common.out.done(
        found,
        f"Version {version_id} goes to {found.fraction:.4g} of the computers ({found.state}).",
        version_id,
    )


@commands.verb("hold")
def hold(version_id: VersionArgument, common: Common) -> None:
    """Send a version to no more computers until its roll-out is started again."""
    found = common.ask(lambda connected: connected.operation.hold_rollout(version_id))
    common.out.done(found, f"Version {version_id} is held: no computer gets it.", version_id)


@commands.verb("roll-back")
def roll_back(
    version_id: VersionArgument,
    abort_jobs: Annotated[bool, Option("--abort-jobs", help="Tell computers to abort its tasks.")] = False,
    common: Common = Common(),
) -> None:
    """Withdraw a version: the previous one is sent again."""
    done = common.ask(lambda connected: connected.operation.roll_back(version_id, abort_jobs=abort_jobs))
    instead = (
        f"version {done.version_in_its_place} is sent instead"
        if done.version_in_its_place
        else "there is no previous version"
    )
    lines = [f"Version {version_id} is no longer sent; {instead}."]
    if abort_jobs:
        lines.append(f"Results on computers that are given up: {done.results_given_up}.")
    common.out.show(done, lines=lines, essential=[done.version_in_its_place or ""])
