from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.helpers.store_content import NOW, add_app, add_file, add_version

from cobblestone.domain.apps import App, ComparisonRule
from cobblestone.domain.errors import Conflict, NotFound
from cobblestone.domain.job_form import InputSlot, JobForm
from cobblestone.domain.values import AppId, AppVersionId
from cobblestone.domain.work import JobLimits, OutputSpec, ReplicationRules
from cobblestone.store.catalog import apps, files
from cobblestone.store.engine.database import Store

FULL = App(
    id=AppId(0),
    name="full",
    user_friendly_name="Everything set",
    beta=True,
    comparison=ComparisonRule(kind="numeric", options={"rtol": 1e-6}),
    assimilator="functions/full/merge.py:assimilate",
    credit_system="fixed",
    limits=JobLimits(rsc_fpops_est=1e15, delay_bound=3600),
    rules=ReplicationRules(min_quorum=2, target_nresults=3),
    output_specs=(OutputSpec(open_name="a", gzip=True), OutputSpec(open_name="b", optional=True)),
)


def test_an_app_comes_back_as_it_was_created(store: Store):
    form = JobForm(command=("python3", "{input}"), inputs=(InputSlot(name="input"),), stdout="a")
    created = store.write(lambda tx: apps.create_app(tx, FULL, form=form, now=NOW))
    found = store.read(lambda db: apps.app_by_name(db, "full"))
    assert found == created == replace(FULL, id=created.id, create_time=NOW)
    assert store.read(lambda db: apps.job_form(db, created.id)) == form


def test_names_of_apps_are_unique(store: Store):
    add_app(store)
    with pytest.raises(Conflict, match="already an app called demo"):
        add_app(store)
    assert len(store.read(apps.list_apps)) == 1


def test_a_changed_app_keeps_its_form_unless_a_new_one_is_given(store: Store):
    app = add_app(store, form=JobForm(command=("old",)))
    store.write(lambda tx: apps.update_app(tx, replace(app, deprecated=True)))
    assert store.read(lambda db: apps.app_by_name(db, "demo")) == replace(app, deprecated=True)
    assert store.read(lambda db: apps.job_form(db, app.id)).command == ("old",)
    store.write(lambda tx: apps.update_app(tx, app, form=JobForm(command=("new",))))
    assert store.read(lambda db: apps.job_form(db, app.id)).command == ("new",)


def test_there_is_no_app_with_an_unknown_id(store: Store):
    for look in (apps.app_by_id, apps.job_form):
        with pytest.raises(NotFound):
            store.read(lambda db, look=look: look(db, AppId(7)))
    with pytest.raises(NotFound):
        store.write(lambda tx: apps.update_app(tx, FULL))


def test_versions_are_numbered_by_platform(store: Store, tmp_path: Path):
    app, file = add_app(store), add_file(store, tmp_path, b"x")
    numbers = [add_version(store, app, file, platform=p).version_num for p in ("any", "any", "linux", "any")]
    assert numbers == [100, 101, 100, 102]


def test_a_version_number_is_used_once(store: Store, tmp_path: Path):
    app, file = add_app(store), add_file(store, tmp_path, b"x")
    version = add_version(store, app, file)
    with pytest.raises(Conflict, match=r"version 1\.00 for any"):
        store.write(lambda tx: apps.add_version(tx, version, now=NOW))


def test_a_version_holds_its_files(store: Store, tmp_path: Path):
    app, file = add_app(store), add_file(store, tmp_path, b"x")
    add_version(store, app, file)
    files.delete_unused(store, tmp_path / "download", before=NOW + 1)
    assert store.read(lambda db: files.files_by_name(db, [file.name]))[file.name].refs == 1


def test_a_version_with_a_missing_file_is_not_stored(store: Store, tmp_path: Path):
    app, file = add_app(store), add_file(store, tmp_path, b"x")
    with pytest.raises(NotFound, match="jf_nowhere"):
        add_version(store, app, replace(file, name="jf_nowhere"))
    assert store.read(apps.list_versions) == []


def test_deprecated_versions_are_listed_only_on_request(store: Store, tmp_path: Path):
    app, file = add_app(store), add_file(store, tmp_path, b"x")
    version = add_version(store, app, file)
    changed = store.write(lambda tx: apps.set_version_deprecated(tx, version.id, True))
    assert changed == replace(version, deprecated=True)
    assert store.read(lambda db: apps.list_versions(db, app.id)) == []
    assert store.read(lambda db: apps.list_versions(db, app.id, deprecated=True)) == [changed]


def test_an_unknown_version_cannot_be_deprecated(store: Store):
    with pytest.raises(NotFound, match="version 5"):
        store.write(lambda tx: apps.set_version_deprecated(tx, AppVersionId(5), True))


def test_signatures_reach_every_version_with_the_file(store: Store, tmp_path: Path):
    app, file, other = add_app(store), add_file(store, tmp_path, b"x"), add_file(store, tmp_path, b"y")
    for each in (file, file, other):
        add_version(store, app, each)
    assert store.write(lambda tx: apps.set_signatures(tx, {file.name: "signature"})) == 2
    versions = store.read(apps.list_versions)
    assert [version.signed for version in versions] == [True, True, False]
    assert [each.name for each in apps.unsigned_files(versions)] == [other.name]
