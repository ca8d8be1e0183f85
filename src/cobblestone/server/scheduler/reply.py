"""Blocks of a scheduler reply: addresses for the client, and its jobs."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from cobblestone.domain.apps import App, AppFile, AppVersion, is_generalised
from cobblestone.domain.hosts import Host
from cobblestone.domain.people import User
from cobblestone.domain.values import ResultId
from cobblestone.domain.work import InputFile, output_file_name
from cobblestone.policy.dispatch.catalogue import Assignment, Catalogue, reported_at_once
from cobblestone.server.core.context import ServerContext
from cobblestone.server.core.project import notice_page
from cobblestone.store.catalog.files import fan_out
from cobblestone.store.engine.database import Transaction
from cobblestone.store.work import batches
from cobblestone.wire.project.signatures import upload_signature
from cobblestone.wire.scheduler import reply as wire

NOTICE_INTERVAL = 86400.0


class Links:
    """The addresses that every reply carries."""

    def __init__(self, ctx: ServerContext) -> None:
        self.gui_urls = tuple(
            wire.GuiUrl(name=name, description=name, url=ctx.url(path))
            for name, path in ctx.gui_urls().items()
        )
        self._ctx = ctx
        self._news = wire.RssFeed(url=ctx.url("rss_main.php"), poll_interval=NOTICE_INTERVAL)

    def rss_feeds(self, user: User) -> tuple[wire.RssFeed, ...]:
        """Return where clients get the project's news and the notices of their owner."""
        own = self._ctx.url(notice_page(self._ctx.secret, user))
        return self._news, wire.RssFeed(url=own, poll_interval=NOTICE_INTERVAL)


UPLOAD_PATH = "cgi-bin/file_upload_handler"


def download_url(ctx: ServerContext, name: str) -> str:
    """Return the URL of a file in the download hierarchy."""
    return ctx.url(f"download/{fan_out(name)}/{name}")


def _download_urls(ctx: ServerContext, name: str) -> tuple[str, ...]:
    """Return the URLs of a file: those of the mirrors, which clients try first, and ours, which always has it."""
    mirrors = (f"{mirror}{fan_out(name)}/{name}" for mirror in ctx.settings.storage.mirrors)
    return (*mirrors, download_url(ctx, name))


def last_jobs(
    tx: Transaction, assignments: Sequence[Assignment], ctx: ServerContext, host: Host
) -> frozenset[ResultId]:
    """Return those of the claimed results that end their batches: they must be reported as soon as they are done."""
    sent = [assignment.candidate for assignment in assignments]
    return reported_at_once(
        sent,
        batches.progress(tx, {each.batch_id for each in sent if each.batch_id is not None}),
        ncpus=host.description.p_ncpus,
        served=ctx.candidates.last_served(),
    )


def add_jobs(
    reply: wire.SchedulerReply,
    assignments: Sequence[Assignment],
    ctx: ServerContext,
    catalogue: Catalogue,
    *,
    at_once: AbstractSet[ResultId] = frozenset(),
) -> None:
    """Describe assigned results in a reply, with all that the client needs to run them, each item once.

    ``at_once``: those that it shall report as soon as they are done.
    """
    files: dict[str, wire.FileInfo] = {}
    apps: dict[str, wire.AppBlock] = {}
    versions: dict[tuple[int, str], wire.AppVersionBlock] = {}
    workunits: list[wire.WorkunitBlock] = []
    outputs: list[wire.OutputFileInfo] = []
    results: list[wire.ResultBlock] = []
    upload_url = ctx.url(UPLOAD_PATH)
    for assignment in assignments:
        candidate, version = assignment.candidate, assignment.version
        app = catalogue.apps[candidate.app_id]
        if app.name not in apps:
            apps[app.name] = wire.AppBlock(
                name=app.name, user_friendly_name=app.title, non_cpu_intensive=app.dispatch.non_cpu_intensive
            )
        version_key = (version.id, assignment.platform)
        if version_key not in versions and not is_generalised(version.id):  # else the client has its own
            for app_file in version.files:
                if app_file.name not in files:
                    files[app_file.name] = _file_info(
                        ctx,
                        app_file,
                        executable=app_file.executable or app_file.main_program,
                        signature=app_file.signature,
                    )
            versions[version_key] = _version_block(app.name, version, assignment)
        for input_file in candidate.input_files:
            if input_file.name not in files:
                files[input_file.name] = _file_info(ctx, input_file, sticky=input_file.sticky)
        workunits.append(_workunit_block(app, assignment))
        new_outputs, result = _result_block(
            assignment, ctx.secret, upload_url, at_once=candidate.result_id in at_once
        )
        outputs += new_outputs
        results.append(result)
    reply.files += tuple(files.values())
    reply.apps += tuple(apps.values())
    reply.app_versions += tuple(versions.values())
    reply.workunits += tuple(workunits)
    reply.output_files += tuple(outputs)
    reply.results += tuple(results)


def _file_info(
    ctx: ServerContext,
    file: AppFile | InputFile,
    *,
    executable: bool = False,
    signature: str = "",
    sticky: bool = False,
) -> wire.FileInfo:
    urls = _download_urls(ctx, file.name)
    return wire.FileInfo(
        name=file.name,
        urls=urls,
        nbytes=file.nbytes,
        md5_cksum=file.md5,
        executable=executable,
        file_signature=signature,  # of the file as clients unpack it
        sticky=sticky,
        gzipped_url="" if file.gzipped_nbytes is None else f"{urls[0]}.gz",
        gzipped_nbytes=file.gzipped_nbytes or 0,
    )


def _version_block(app_name: str, version: AppVersion, assignment: Assignment) -> wire.AppVersionBlock:
    usage = assignment.usage
    return wire.AppVersionBlock(
        app_name=app_name,
        version_num=version.version_num,
        platform=assignment.platform,
        plan_class=version.plan_class,
        avg_ncpus=usage.avg_ncpus,
        flops=usage.flops,
        api_version=version.api_version,
        cmdline=usage.command_line,
        coproc_type=usage.gpu_type,
        coproc_count=usage.ngpus,
        file_refs=tuple(
            wire.FileRef(
                file_name=file.name,
                open_name=file.open_name,
                main_program=file.main_program,
                copy_file=file.copy_file,
            )
            for file in version.files
        ),
    )


def _workunit_block(app: App, assignment: Assignment) -> wire.WorkunitBlock:
    candidate = assignment.candidate
    usage = assignment.usage
    return wire.WorkunitBlock(
        name=candidate.workunit_name,
        app_name=app.name,
        job_keyword_ids=" ".join(map(str, app.dispatch.keywords)),
        rsc_fpops_est=candidate.limits.rsc_fpops_est * usage.operations_factor,
        rsc_fpops_bound=candidate.limits.rsc_fpops_bound * usage.bound_factor,
        rsc_memory_bound=candidate.limits.rsc_memory_bound,
        rsc_disk_bound=candidate.limits.rsc_disk_bound,
        command_line=candidate.command_line,
        file_refs=tuple(
            wire.FileRef(file_name=file.name, open_name=file.open_name, copy_file=file.copy_file)
            for file in candidate.input_files
        ),
    )


def _result_block(
    assignment: Assignment, secret: bytes, upload_url: str, *, at_once: bool
) -> tuple[list[wire.OutputFileInfo], wire.ResultBlock]:
    candidate = assignment.candidate
    infos: list[wire.OutputFileInfo] = []
    refs: list[wire.FileRef] = []
    for index, spec in enumerate(candidate.output_specs):
        name = output_file_name(candidate.result_name, index)
        infos.append(
            wire.OutputFileInfo(
                name=name,
                max_nbytes=spec.max_nbytes,
                upload_url=upload_url,
                xml_signature=upload_signature(secret, name, spec.max_nbytes),
                gzip_when_done=spec.gzip,
            )
        )
        refs.append(
            wire.FileRef(
                file_name=name, open_name=spec.open_name, copy_file=spec.copy_file, optional=spec.optional
            )
        )
    return infos, wire.ResultBlock(
        name=candidate.result_name,
        wu_name=candidate.workunit_name,
        platform=assignment.platform,
        version_num=assignment.version.version_num,
        plan_class=assignment.version.plan_class,
        report_deadline=assignment.report_deadline,
        file_refs=tuple(refs),
        report_immediately=at_once,
    )
