"""``cobblestone scales``: credit scales of GPU versions, found together with other projects."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cobblestone.cli.options import Common
from cobblestone.cli.parameters import Argument, Commands, Option

scales_commands = Commands(help="Credit scales of GPU versions across projects.")


@scales_commands.verb("serve")
def serve(
    sources: Annotated[
        list[str],
        Argument(
            metavar="FILE_OR_URL...",
            help="Addresses of projects (ending in /) or of their exports, or files with one address "
            "per line.",
        ),
    ],
    port: Annotated[int, Option(min=0, max=65535, help="Port to listen on; 0: any.")] = 8090,
    host: Annotated[str, Option(help="Address to listen on.")] = "127.0.0.1",
    every: Annotated[float, Option(min=1.0, help="Seconds between two rounds.")] = 3600.0,
    min_projects: Annotated[
        int,
        Option(
            min=1,
            help="Publish plan classes of at least this many projects. With fewer than 3, a single "
            "project can set any scale.",
        ),
    ] = 3,
    timeout: Annotated[float, Option(min=0.1, help="Time limit for a project, in seconds.")] = 30.0,
    state: Annotated[
        Path, Option(metavar="FILE", help="Keeps the figures of projects, so that a restart loses nothing.")
    ] = Path("scales-state.json"),
) -> None:
    """Collect the scales of projects and publish the average per plan class, until Ctrl-C."""
    from cobblestone.cli.output import print_error
    from cobblestone.ops.logging import configure_logging
    from cobblestone.scales.collector import ScalesCollector, read_sources
    from cobblestone.scales.service import bind
    from cobblestone.scales.service import serve as run_service

    collector = ScalesCollector(
        read_sources(sources), min_projects=min_projects, timeout_seconds=timeout, state=state
    )
    configure_logging(level="info", json=False)
    with bind(host, port) as listener:
        address = f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}/"
        run_service(
            collector,
            listener,
            every_seconds=every,
            ready=lambda: print_error(
                f"Scales (projects: {len(collector.sources)}) at {address} – stop it with Ctrl-C."
            ),
        )


@scales_commands.verb("apply")
def apply(
    source: Annotated[
        str, Argument(metavar="URL", help="The service (ending in /), its scales.json, or a file.")
    ],
    dry_run: Annotated[bool, Option("--dry-run", help="Only show what would change.")] = False,
    common: Common = Common(),
) -> None:
    """Find the versions of apps that have only GPU versions, and set their scales to the published ones."""
    from cobblestone.scales.collector import read_document
    from cobblestone.wire.project.scales import parse_published_scales

    published = parse_published_scales(read_document(source))
    printer = common.out
    done = common.ask(lambda connected: connected.admin.apply_scales(published, dry_run=dry_run))
    rows = [
        (
            f"{each.app} {each.version_num / 100:.2f}",
            each.platform,
            each.plan_class,
            _scale(each.old_scale),
            _scale(each.new_scale),
            ("would change" if dry_run else "changed") if each.changed else _why_not(each.new_scale),
        )
        for each in done.versions
    ]
    printer.table(
        done,
        ["version", "platform", "plan class", "scale", "published", "what"],
        rows,
        empty="No app has GPU versions only: nothing to do.",
        right=("scale", "published"),
    )
    printer.say(
        f"Plan classes published: {len(published)}; versions that {'would change' if dry_run else 'changed'}:"
        f" {sum(each.changed for each in done.versions)}; versions of apps with CPU versions, whose scales are computed"
        f" automatically: {done.n_other_versions}."
    )


def _scale(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"


def _why_not(published: float | None) -> str:
    return "not published" if published is None else "as it was"
