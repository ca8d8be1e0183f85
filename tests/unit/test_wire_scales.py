"""Exports of scales as bytes: hostile numbers, forms and sizes."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from cobblestone.domain.errors import RemoteProtocolError
from cobblestone.domain.exports import ProjectScales, PublishedScale, VersionScale
from cobblestone.wire.project.scales import (
    MAX_BYTES,
    MAX_ROWS,
    parse_project_scales,
    parse_published_scales,
    write_project_scales_json,
    write_project_scales_xml,
    write_published_scales_json,
    write_published_scales_xml,
)

PROJECT = ProjectScales(
    name="Sun & <stars>",
    master_url="http://127.0.0.1/sun/",
    time=5.0,
    versions=(
        VersionScale(
            app_name="fold",
            platform="x86_64-pc-linux-gnu",
            plan_class="cuda",
            version_num=102,
            expavg_credit=1234.5,
            pfc_scale=0.0000321,
        ),
    ),
)
GOOD = {"app_name": "a", "plan_class": "cuda", "expavg_credit": 1, "pfc_scale": 0.1}


def export(*rows: object, **head: object) -> bytes:
    return json.dumps({"app_versions": list(rows), **head}).encode()


def test_the_xml_form_says_what_the_design_asks_for() -> None:
    assert write_project_scales_xml(PROJECT).decode() == (
        '<?xml version="1.0" encoding="UTF-8" ?>\n<version_scales>\n'
        "  <name>Sun &amp; &lt;stars&gt;</name>\n  <master_url>http://127.0.0.1/sun/</master_url>\n"
        "  <credit_per_gflops_day>200.0</credit_per_gflops_day>\n  <time>5.0</time>\n"
        "  <app_version>\n    <app_name>fold</app_name>\n    <platform>x86_64-pc-linux-gnu</platform>\n"
        "    <version_num>102</version_num>\n    <plan_class>cuda</plan_class>\n"
        "    <expavg_credit>1234.5</expavg_credit>\n    <pfc_scale>3.21e-05</pfc_scale>\n"
        "    <measured>1</measured>\n  </app_version>\n</version_scales>\n"
    )


def test_the_json_form_has_the_same_fields() -> None:
    values = json.loads(write_project_scales_json(PROJECT))
    assert values["name"] == "Sun & <stars>"
    assert values["app_versions"][0]["expavg_credit"] == 1234.5
    assert set(values["app_versions"][0]) == {
        "app_name", "platform", "version_num", "plan_class", "expavg_credit", "pfc_scale", "measured",
    }  # fmt: skip


@pytest.mark.parametrize("write", [write_published_scales_xml, write_published_scales_json])
def test_published_scales_arrive(write: Callable[..., bytes]) -> None:
    item = PublishedScale(
        plan_class="cuda & co", scale=0.05, n_projects=4, lowest=0.01, highest=0.1, expavg_credit=7.0
    )
    assert parse_published_scales(write([item], time=1.0)) == {"cuda & co": 0.05}


@pytest.mark.parametrize(
    "bad",
    [
        {"pfc_scale": "NaN"},
        {"pfc_scale": "Infinity"},
        {"pfc_scale": -0.1},
        {"pfc_scale": 1e7},
        {"pfc_scale": 1e-9},
        {"pfc_scale": "fast"},
        {"pfc_scale": None},
        {"pfc_scale": [0.1]},
        {"pfc_scale": 10**400},
        {"expavg_credit": "1e304"},
        {"expavg_credit": -1},
        {"expavg_credit": ""},
        {"expavg_credit": None},
        {"app_name": ""},
        {"app_name": 7},
        {"app_name": "x" * 255},
        {"version_num": "new"},
    ],
)
def test_one_bad_row_is_left_out_and_counted_and_loses_nothing_else(bad: dict[str, object]) -> None:
    parsed = parse_project_scales(export(GOOD, {**GOOD, **bad}, "nonsense", GOOD))
    assert len(parsed.scales.versions) == 2
    assert parsed.n_refused == 2


def test_nan_as_python_writes_it_is_no_number() -> None:
    assert parse_project_scales(export({**GOOD, "pfc_scale": float("nan")})).n_refused == 1


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (b"", "neither JSON nor"),
        (b"<html>", "neither JSON nor"),
        (b"<html/>", "not <version_scales>"),
        (b"{}", "no list 'app_versions'"),
        (b'{"app_versions": {}}', "no list"),
        (b"{" * 100_000, "not JSON"),
        (b'{"a":' + b"[" * 100_000, "not JSON"),
        (b"<version_scales>" + b"<a>" * 100_000, "neither JSON nor"),
        (b"\xff\xfe", "not UTF-8"),
        (b" " * (MAX_BYTES + 1), "too many"),
        (b'{"app_versions": [' + b"1," * MAX_ROWS + b"1]}", "too many"),
        (b"<version_scales>" + b"<app_version/>" * (MAX_ROWS + 1) + b"</version_scales>", "too many"),
        (b'<!DOCTYPE a [<!ENTITY b "c">]><version_scales/>', "document types"),
        (export(GOOD, credit_per_gflops_day=0), "credit_per_gflops_day"),
        (export(GOOD, credit_per_gflops_day="NaN"), "credit_per_gflops_day"),
    ],
)
def test_other_documents_are_refused_with_a_reason(body: bytes, complaint: str) -> None:
    with pytest.raises(RemoteProtocolError, match=complaint):
        parse_project_scales(body)


def test_control_characters_do_not_reach_names() -> None:
    parsed = parse_project_scales(export({**GOOD, "plan_class": "cu\x00da\nx"}))
    assert parsed.scales.versions[0].plan_class == "cuda x"


def test_published_scales_that_cannot_be_are_left_out() -> None:
    rows = [
        {"plan_class": "a", "scale": 0.1},
        {"plan_class": "b", "scale": 1e9},
        {"plan_class": "", "scale": 1},
    ]
    body = json.dumps({"plan_classes": [*rows, {"plan_class": "c", "scale": "NaN"}]}).encode()
    assert parse_published_scales(body) == {"a": 0.1}
