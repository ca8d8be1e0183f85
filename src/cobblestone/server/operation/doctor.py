"""``cobblestone doctor``: checks the integrity of a live project, and repairs what is safe.

A check finds what offends a promise (`docs/promises.md`, "What must always hold").  A repair changes nothing that a
volunteer or a scientist was promised: it counts again, lets the transitioner look again, or removes what nothing refers to.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from cobblestone.api_schema.operation import Diagnosis
from cobblestone.domain.errors import CobblestoneError, NotFound
from cobblestone.domain.reasons import Finding
from cobblestone.policy.credit.exposure import what_a_liar_gains
from cobblestone.policy.dispatch.rollout import RolloutState
from cobblestone.server.core.context import ServerContext, free_bytes
from cobblestone.server.core.plan_classes import load_plan_classes
from cobblestone.server.credit.ledger_audit import DAMAGED, recompute
from cobblestone.server.files.code_signing import private_key_of
from cobblestone.server.operation import cards
from cobblestone.server.operation.alerts import disk_warnings, export_warnings
from cobblestone.service import diagnosis
from cobblestone.service.health import DaemonHealth
from cobblestone.store.catalog import apps, files
from cobblestone.store.credit import history
from cobblestone.store.engine.database import Database, Transaction
from cobblestone.store.operation import audit, invariants
from cobblestone.store.operation.audit import Actor
from cobblestone.store.operation.figures import rollout_of
from cobblestone.store.schema.project import PROJECT
from cobblestone.store.work.uploads import partial_folder
from cobblestone.wire.project.signatures import decode_public_key, encode_public_key, same_key, verify_md5

#: A file that no row knows is left alone until it is so old: its row may be on its way.
STRAY_SECONDS = 86400.0

Check = diagnosis.Check[ServerContext, [ServerContext, Database]]


async def diagnose(ctx: ServerContext, check: Check) -> Diagnosis:
    """Run one check, on a snapshot of the database."""

    def look(db: Database) -> Diagnosis:
        ctx.looks[check.name] = db
        db.leaves_out = False  # it is to name them
        return check.look(ctx, db)

    try:
        return await ctx.store.aread(look)
    except Exception as error:  # noqa: BLE001  # damaged rows fail in any way, and the other checks must go on
        return check.unread(error)


async def repair(ctx: ServerContext, check: Check, actor: Actor) -> int:
    """Repair what a check found, as far as it is safe; return how many faults.  Recorded in the audit log."""
    if check.repair is None:
        return 0
    count = await asyncio.to_thread(check.mend, ctx)
    await ctx.store.awrite(
        lambda tx: audit.record(
            tx,
            actor,
            "repair",
            f"check {check.name}",
            now=ctx.clock(),
            after={"repaired": count, "how": check.repair_text},
        )
    )
    return count


# -- the finders ---------------------------------------------------------------


def _durable(ctx: ServerContext, db: Database) -> Iterator[Finding]:
    if ctx.settings.database.url:
        return invariants.durability_of_server(db)
    return invariants.durability(db)


def _schema(ctx: ServerContext, db: Database) -> Iterator[Finding]:
    return diagnosis.missing_steps(ctx.folder.location(ctx.settings), PROJECT)


def _totals(ctx: ServerContext, db: Database) -> Iterator[Finding]:
    audit = recompute(db)
    for item in audit.differences:
        text = item.note or f"{item.figure} is {item.stored!r}, the ledger says {item.computed!r}"
        yield Finding("not_of_ledger", item.table, item.id, text)
    if audit.more:
        yield Finding("more_differences", "ledger", None, f"further differences: {audit.more}")


def _settle_totals(ctx: ServerContext) -> int:
    def settle(tx: Transaction) -> int:
        # Computed again inside the write: nothing can be granted in between.
        differences = recompute(tx).differences
        if any(item.figure == DAMAGED for item in differences):
            return 0  # sums without the entries that cannot be read would take their credit away
        wrong = [item for item in differences if item.table != "credit_entry" and item.computed is not None]
        for item in wrong:
            invariants.set_statement_figure(tx, item.table, item.id, item.figure, item.computed or 0.0)
        return len(wrong)

    return ctx.store.write(settle)


def _look_again(ctx: ServerContext) -> int:
    found = ctx.store.read(lambda db: list(invariants.workunit_states(db)))
    stuck = [int(each.id or 0) for each in found if each.code == "no_next_check"]
    return ctx.store.write(lambda tx: invariants.look_again(tx, stuck, now=ctx.clock()))


def _recount_batches(ctx: ServerContext) -> int:
    def recount(tx: Transaction) -> int:
        wrong = {int(each.id or 0) for each in invariants.assimilated_once(tx) if each.code == "miscounted"}
        for batch_id in wrong:
            invariants.recount_batch(tx, batch_id)
        return len(wrong)

    return ctx.store.write(recount)


def _history(ctx: ServerContext, db: Database) -> Iterator[Finding]:
    for owner, owner_id, kept, granted in history.unlike_ledger(db):
        text = f"its days have {kept:g} credit, and the ledger {granted:g}"
        yield Finding("history_differs", str(owner), owner_id, text)


def _input_files(ctx: ServerContext, db: Database) -> Iterator[Finding]:
    db.will_look_at("workunit", "file")
    needed, rows = invariants.needed_files(db), invariants.file_rows(db)
    for name, users in needed.items():
        if name not in rows:
            text = f"it is not stored, and needed; workunits and app versions that do: {users}"
            yield Finding("not_stored", "file", name, text)
    for name, (nbytes, refs, *_) in rows.items():
        users = needed.get(name, 0)
        if refs != users:
            yield Finding("miscounted", "file", name, f"counts users: {refs}, and has {users}")
        if users:
            yield from _kept(ctx, files.place_of(ctx.folder.download, name), nbytes, "file", name)


def _file_contents(ctx: ServerContext, db: Database) -> Iterator[Finding]:
    for name, (_, refs, md5, packed) in invariants.file_rows(db).items():
        if not refs:
            continue
        path = files.place_of(ctx.folder.download, name)
        with contextlib.suppress(FileNotFoundError):  # the check of input files says so
            if files.content_md5(path) != md5:
                yield Finding("damaged", "file", name, f"{path} has changed: its MD5 is not {md5}")
            copy = files.gzip_variant(path)
            if packed and files.content_md5(copy, packed=True) != md5:
                yield Finding("damaged_copy", "file", name, f"{copy}, its compressed copy, is damaged")


def _output_files(ctx: ServerContext, db: Database) -> Iterator[Finding]:
    db.will_look_at("upload", "upload")  # in the database, and on the disk
    for name, (nbytes,) in invariants.output_rows(db).items():
        db.n_looked_at += 1
        yield from _kept(ctx, files.place_of(ctx.folder.upload, name), nbytes, "output", name)


def _kept(ctx: ServerContext, path: Path, nbytes: int, kind: str, name: str) -> Iterator[Finding]:
    size = ctx.storage.size(path)
    if size is None:
        yield Finding("missing", kind, name, f"{path} is missing")
    elif size != nbytes:
        yield Finding("wrong_size", kind, name, f"{path} has {size} bytes instead of {nbytes}")


def _orphaned_files(ctx: ServerContext, db: Database) -> Iterator[tuple[Path, str]]:
    """Return old files without a reference, with a description."""
    old = ctx.clock() - STRAY_SECONDS
    for root, outputs in ((ctx.folder.download, False), (ctx.folder.upload, True)):
        for folder in sorted(root.iterdir()) if root.is_dir() else ():
            if not folder.is_dir() or folder == partial_folder(ctx.folder.upload):
                continue
            paths = {path.name: path for path in folder.iterdir() if _is_old(path, old)}
            names = {name: name.removesuffix(".gz") if not outputs else name for name in paths}
            either = sorted({*names, *names.values()})
            unknown = set(invariants.unknown_names(db, either, outputs=outputs))
            for name in sorted(paths):
                # A compressed twin belongs to its file; a file may also be called .gz itself.
                if names[name] in unknown and name in unknown:
                    yield paths[name], "no row refers to it"
    for path in sorted(ctx.folder.staging.iterdir()) if ctx.folder.staging.is_dir() else ():
        if _is_old(path, old):
            yield path, "it was left unfinished"


def _is_old(path: Path, before: float) -> bool:
    try:
        return path.is_file() and path.stat().st_mtime < before
    except FileNotFoundError:
        return False


def _find_orphaned_files(ctx: ServerContext, db: Database) -> Iterator[Finding]:
    for path, text in _orphaned_files(ctx, db):
        yield Finding("orphaned", "file", str(path.relative_to(ctx.folder.root)), text)


def _remove_orphaned_files(ctx: ServerContext) -> int:
    """Remove orphaned files; a concurrent upload of the same file stores it again, because its row is written last."""

    def remove(tx: Transaction) -> int:
        count = 0
        for path, _ in _orphaned_files(ctx, tx):
            path.unlink(missing_ok=True)
            count += 1
        return count

    return ctx.store.write(remove)  # inside a write, so that no row appears between the look and the removal


def _keys(ctx: ServerContext, db: Database) -> Iterator[Finding]:
    folder = ctx.folder
    if len(ctx.secret) < 16:
        yield Finding("short_secret", str(folder.secret_file), None, "it is too short to be a secret")
    yield from diagnosis.readable_by_others(folder.root, _secrets(ctx))
    current = apps.current_key(db)
    if current is None:
        yield Finding("no_key", "code signing key", None, "the project has none")
        return
    try:
        private = private_key_of(folder)
    except CobblestoneError as error:
        yield Finding("unreadable_key", "code signing key", None, str(error))
        return
    if private is not None and not same_key(encode_public_key(private.public_key()), current.public_key):
        text = "the private key in the folder does not match the current public key"
        yield Finding("other_key", "code signing key", None, text)


def _secrets(ctx: ServerContext) -> list[Path]:
    """Return the secret files: keys, and databases with addresses and password hashes."""
    folder = ctx.folder
    keys_ = [path for path in sorted(folder.keys.iterdir()) if path != folder.code_sign_public]
    databases = [path for path in (folder.database, ctx.archive.path) if path.exists()]
    return [folder.keys, *keys_, *databases, *diagnosis.secret_settings(folder.root)]


def _signatures(ctx: ServerContext, db: Database) -> Iterator[Finding]:
    current = apps.current_key(db)
    if current is None:
        return
    key = decode_public_key(current.public_key)
    for version in apps.list_versions(db):
        for file in version.files:
            if not file.signature:
                yield Finding("not_signed", "version", version.id, f"{file.name} is not signed")
            elif not verify_md5(key, file.md5, file.signature):
                text = f"the signature of {file.name} was not made with the current key"
                yield Finding("wrong_signature", "version", version.id, text)


def _versions(ctx: ServerContext, db: Database) -> Iterator[Finding]:
    classes = load_plan_classes(ctx.folder.root)
    for app in apps.list_apps(db):
        versions = apps.list_versions(db, app.id)
        if not app.deprecated and not versions:
            yield Finding("no_version", "app", app.name, "it has no version in use: its jobs are not sent")
        for version in versions:
            if version.plan_class and version.plan_class not in classes:
                text = f"its plan class {version.plan_class!r} is not defined"
                yield Finding("unknown_plan_class", "version", version.id, text)
            if rollout_of(db, version.id).plan.state is RolloutState.HELD:
                yield Finding("held", "version", version.id, "its roll-out is held: no host gets it")


def _disk(ctx: ServerContext, db: Database) -> Iterator[Finding]:
    for warning in disk_warnings(free_bytes(ctx), ctx.settings):
        yield Finding("disk_full", "disk", None, warning.text)


def _export(ctx: ServerContext, db: Database) -> Iterator[Finding]:
    for warning in export_warnings(ctx):
        yield Finding("export_old", "export", None, warning.text)


def _daemons(ctx: ServerContext, db: Database) -> Iterator[Finding]:
    for name, state in ctx.health.states().items():
        if state is not DaemonHealth.RUNNING:
            text = f"is {state.value}: {ctx.health.daemons[name].last_error}".rstrip(": ")
            yield Finding("not_running", "daemon", name, text)


def _liars(ctx: ServerContext, db: Database) -> Iterator[Finding]:
    for app in apps.apps_in_use(db):
        yield Finding("liar_gains", "app", app.name, what_a_liar_gains(app))


def _gpus(ctx: ServerContext, db: Database) -> Iterator[Finding]:
    classes = load_plan_classes(ctx.folder.root)
    for gain in cards.gains(db, cards.recent_cards(db, now=ctx.clock()), classes):
        text = (
            f"it has no version for {gain.maker_name}, whose cards have {gain.share:.0%} of the peak speed of all"
            f" (computers: {gain.computers}): cobblestone app update {gain.app} --gpu {gain.maker} ..."
        )
        yield Finding("gpu_left_out", "app", gain.app, text)


CHECKS: Mapping[str, Check] = diagnosis.by_name(
    Check(
        name="one_host",
        promise="A result is handed to one host at most.",
        find=diagnosis.in_rows(invariants.handed_to_one_host),
    ),
    Check(
        name="credited_once",
        promise="A valid result is credited exactly once.",
        find=diagnosis.in_rows(invariants.credited_once),
        advice="Look at the result with `cobblestone credit explain`, and correct by `cobblestone credit correct`.",
    ),
    Check(
        name="contributions",
        promise="Storage and network of a volunteer are the sums of their ledger.",
        find=diagnosis.in_rows(invariants.contributed_as_listed),
    ),
    Check(
        name="totals",
        promise="Totals and averages of hosts, users, teams and app versions are those of the ledger.",
        find=_totals,
        repair=_settle_totals,
        repair_text="Sets totals and averages to what the ledger says. The ledger is not changed.",
        advice="Entries that cannot be computed again need their credit system installed; damaged ones must come back from"
        " a backup before totals are set.",
    ),
    Check(
        name="history",
        promise="Days of the history add up to the ledger.",
        find=_history,
        repair=diagnosis.in_write(history.start_again),
        repair_text="Lets the history be summed from the ledger again, in some minutes.",
    ),
    Check(
        name="durable",
        promise="What was acknowledged is on disk: the database is sound and flushes every commit.",
        find=_durable,
        advice="Stop the server, copy the folder, and restore the last backup (cobblestone restore).",
    ),
    Check(
        name="next_step",
        promise="A workunit is finished or has a time of its next look; states fit together; one canonical result.",
        find=diagnosis.in_rows(invariants.workunit_states),
        repair=_look_again,
        repair_text="Lets the transitioner look again at workunits that no daemon would have looked at.",
        advice="Retry or cancel the workunit: cobblestone workunit retry, cobblestone workunit cancel.",
    ),
    Check(
        name="assimilated_once",
        promise="As seen by the project, assimilation happens once; a batch counts its jobs right.",
        find=diagnosis.in_rows(invariants.assimilated_once),
        repair=_recount_batches,
        repair_text="Counts the finished jobs of the batch again.",
    ),
    Check(
        name="input_files",
        promise="Input files live while a result may need them, and are counted right.",
        find=_input_files,
        repair=diagnosis.in_write(invariants.recount_references),
        repair_text="Counts again how many workunits and app versions need each file. Missing files do not come back.",
        advice="Bring missing files back from a backup, or upload them again (they keep their names).",
    ),
    Check(
        name="file_contents",
        promise="Files that hosts download are what was stored and signed.",
        find=_file_contents,
        advice="Bring the file back from a backup, or remove it and upload it again; hosts refuse a file with another MD5.",
    ),
    Check(
        name="output_files",
        promise="Output files live until they were handed over.",
        find=_output_files,
        advice="Bring the file back from a backup, or cancel the workunit.",
    ),
    Check(
        name="stray_files",
        promise="Every file belongs to a row.",
        find=_find_orphaned_files,
        repair=_remove_orphaned_files,
        repair_text="Removes files older than a day that no row knows, as a crash may leave them.",
        advice="They cost room and nothing else.",
        only_warns=True,
    ),
    Check(
        name="finite",
        promise="Averages are finite and not negative.",
        find=diagnosis.in_rows(invariants.finite_numbers),
        repair=diagnosis.in_write(invariants.forget_wrong_records),
        repair_text="Lets a host start again with an app version for which its record holds impossible numbers.",
        advice="For totals and averages of credit, repair the check totals.",
    ),
    Check(
        name="orphans",
        promise="Every row has its owner.",
        find=diagnosis.in_rows(invariants.orphans),
        repair=diagnosis.in_write(invariants.remove_orphans),
        repair_text="Removes texts, outputs and records of results and hosts that are gone.",
    ),
    Check(
        name="keys",
        promise="Secrets are there, fit together, and are for their owner alone.",
        find=_keys,
        repair=lambda ctx: diagnosis.keep_from_others(_secrets(ctx)),
        repair_text="Takes the permission to read secrets from others.",
        advice="See docs/operator.md, Signing keys.",
    ),
    Check(
        name="signatures",
        promise="Every file of a version in use is signed with the current key.",
        find=_signatures,
        advice="cobblestone key manifest, key sign, key import.",
    ),
    Check(
        name="versions",
        promise="Every app in use has a version that hosts can get.",
        find=_versions,
        advice="Add or release a version: cobblestone app version.",
        only_warns=True,
    ),
    Check(
        name="gpus",
        promise="Apps for GPUs have a version for each maker whose cards the volunteers have.",
        find=_gpus,
        advice="OpenCL programs run on the cards of all makers: --gpu any.",
        only_warns=True,
    ),
    Check(
        name="liars",
        promise="Of each app it is known what lies could gain.",
        find=_liars,
        advice="docs/credit.md says which system and which checks are right for whom.",
        only_warns=True,
    ),
    Check(
        name="schema",
        promise="The database has the schema of this program.",
        find=_schema,
        advice="cobblestone upgrade says what it waits for.",
    ),
    Check(
        name="disk",
        promise="There is room on the disk.",
        find=_disk,
        advice="See docs/operations.md, Disk full.",
        only_warns=True,
    ),
    Check(
        name="export",
        promise="Statistics sites get a recent export.",
        find=_export,
        advice="cobblestone export says why it fails; see docs/exports.md.",
        only_warns=True,
    ),
    Check(
        name="daemons",
        promise="The daemons do their rounds.",
        find=_daemons,
        advice="The log says why (daemon_step_failed); restart the server if one is stuck.",
    ),
)


def check_named(name: str) -> Check:
    """Return a check; raises NotFound with the existing names."""
    try:
        return CHECKS[name]
    except KeyError:
        raise NotFound(f"There is no check {name[:40]!r}. Known: {', '.join(CHECKS)}.") from None
