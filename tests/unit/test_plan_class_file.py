from __future__ import annotations

import contextlib
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cobblestone.domain.apps import GPU_MAKERS, PlanClass, gpu_class, gpu_class_names
from cobblestone.domain.errors import ConfigError
from cobblestone.server.core.plan_classes import BUILT_IN, TEMPLATE, load_plan_classes, parse_plan_classes


def test_plan_classes_are_read_by_name(tmp_path: Path):
    (tmp_path / "plan_classes.toml").write_text(
        '[mt]\nmax_threads = 8\nnthreads_command_line = true\n[cuda]\ngpu_type = "NVIDIA"\nmin_gpu_ram_mb = 2000\n'
    )
    assert load_plan_classes(tmp_path) == {
        **BUILT_IN,
        "mt": PlanClass(name="mt", max_threads=8, nthreads_command_line=True),
        "cuda": PlanClass(name="cuda", gpu_type="NVIDIA", min_gpu_ram_mb=2000),
    }


def test_without_a_file_there_is_the_class_of_containers_which_a_file_may_narrow_but_not_undo(tmp_path: Path):
    assert load_plan_classes(tmp_path) == {"docker": PlanClass(name="docker", docker=True)}
    (tmp_path / "plan_classes.toml").write_text("[docker]\ndocker = true\nmin_memory_mb = 4000\n")
    assert load_plan_classes(tmp_path)["docker"] == PlanClass(name="docker", docker=True, min_memory_mb=4000)


@given(
    st.sampled_from(["nvidia", "amd", "intel"]),
    st.integers(0, 9 * 10**12),
    st.integers(1, 100),
    st.booleans(),
)
def test_the_name_of_a_class_for_a_gpu_says_what_it_asks_for(
    maker: str, memory: int, percent: int, boxed: bool
):
    [name] = gpu_class_names(maker, memory_bytes=memory, share=percent / 100, in_container=boxed)
    found = load_plan_classes(Path("nowhere"))[name]
    assert found == gpu_class(name)
    assert found.gpu_type == GPU_MAKERS[maker]
    assert 0 <= found.min_gpu_ram_mb * 1e6 - memory < 1e6 + 1
    assert found.ngpus == percent / 100
    assert (found.docker, name.startswith("docker-")) == (boxed, boxed)
    assert len(name) < 60


@pytest.mark.parametrize(
    "name", ["gpu-voodoo", "gpu-nvidia-0mb", "gpu-amd-100pct", "gpu-amd-5pct-5mb", "gpu-amd "]
)
def test_other_names_are_no_class_for_a_gpu(tmp_path: Path, name: str):
    assert name not in load_plan_classes(tmp_path)


def test_the_file_refines_a_class_for_a_gpu(tmp_path: Path):
    (tmp_path / "plan_classes.toml").write_text('[gpu-amd]\ngpu_type = "ATI"\nmin_driver_version = 7\n')
    assert load_plan_classes(tmp_path)["gpu-amd"].min_driver_version == 7


def test_the_examples_in_the_template_are_valid():
    assert parse_plan_classes(TEMPLATE, source="template") == {}
    uncommented = "\n".join(line.removeprefix("# ") for line in TEMPLATE.splitlines()[3:])
    assert set(parse_plan_classes(uncommented, source="template")) == set(tomllib.loads(uncommented)) != set()


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("[cuda]\ngpu_typ = 1\n", "Did you mean 'gpu_type'?"),
        ("[cuda]\nzzz = 1\n", "Known:"),
        ("[cuda]\nmin_ncpus = 'two'\n", "cuda"),
        ("[cuda]\nmin_ncpus = -1\n", "min_ncpus = -1"),
        ("[cuda]\nmin_ncpus = nan\n", "finite"),
        ("[cuda]\nmin_ncpus = inf\n", "finite"),
        ("[cuda]\nos_regex = '['\n", "regular expression"),
        ("cuda = 3\n", "[cuda]"),
        ("[docker]\nmin_memory_mb = 4000\n", "docker = true"),
        ("['a b']\n", "a name is"),
        ("[cuda\n", "not valid TOML"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, mentions: str):
    (tmp_path / "plan_classes.toml").write_text(text)
    with pytest.raises(ConfigError, match=r"plan_classes\.toml") as raised:
        load_plan_classes(tmp_path)
    assert mentions in str(raised.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path):
    (tmp_path / "plan_classes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_plan_classes(tmp_path)


@given(st.text(max_size=80))
def test_any_text_is_read_or_refused(text: str):
    with contextlib.suppress(ConfigError):
        parse_plan_classes(text, source="file")
