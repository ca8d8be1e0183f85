"""Values that are made by the thousand, and their changed copies."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import pytest

from cobblestone.domain.hosts import Coprocessor, Host, HostAppVersion, HostDescription
from cobblestone.domain.values import AppVersionId, HostId, UserId, changed, form_of, value

GPU = Coprocessor(type="NVIDIA", count=2)
VALUES = [
    (
        HostDescription(p_ncpus=8, coprocessors=(GPU,)),
        {"usable_ram": 1e9, "platforms": ("x86_64-pc-linux-gnu",)},
    ),
    (Host(id=HostId(3), user_id=UserId(4), venue="home"), {"description": HostDescription(p_ncpus=2)}),
    (HostAppVersion(host_id=HostId(3), app_version_id=AppVersionId(9), bad_results=7), {"n_jobs_today": 5}),
    (GPU, {}),
]


@pytest.mark.parametrize(("original", "changes"), VALUES, ids=lambda each: type(each).__name__)
def test_a_changed_copy_is_what_replace_makes(original: HostDescription, changes: dict[str, object]):
    before = {each.name: getattr(original, each.name) for each in fields(original)}
    copy = changed(original, **changes)
    assert copy == replace(original, **changes)
    assert copy is not original
    assert {each.name: getattr(original, each.name) for each in fields(original)} == before


def test_a_field_that_does_not_exist_is_refused():
    with pytest.raises(AttributeError):
        changed(GPU, colour="green")


def test_what_is_no_plain_value_is_refused():
    @dataclass(frozen=True)
    class Frozen:
        number: int = 1

    @value()
    class Checked:
        number: int = 1

        def __post_init__(self) -> None:
            assert self.number > 0

    for original in (Frozen(), Checked()):
        with pytest.raises(TypeError, match=r"dataclasses\.replace"):
            changed(original, number=2)


def test_a_form_takes_the_fields_of_the_same_names() -> None:
    @dataclass
    class Source:
        name: str
        size: int = 0
        secret: str = "kept here"

    @value(kw_only=True)
    class Form:
        name: str
        size: int
        colour: str = "grey"

    assert form_of(Form, Source("a", 5)) == Form(name="a", size=5)
    assert form_of(Form, Source("a", 5), size=7, colour="red") == Form(name="a", size=7, colour="red")
    assert form_of(Form, Form(name="first", size=1), Source("second")) == Form(name="first", size=1)
    with pytest.raises(TypeError, match="name"):
        form_of(Form, object(), size=1)
    with pytest.raises(TypeError, match="weight"):
        form_of(Form, Source("a", 5), weight=1)


def test_a_form_that_is_more_than_its_fields_is_made_by_its_class() -> None:
    @dataclass(frozen=True)
    class Frozen:
        name: str
        sizes: list[int] = field(default_factory=list[int])

    @value()
    class Checked:
        name: str
        sizes: list[int] = field(default_factory=list[int])

        def __post_init__(self) -> None:
            self.sizes.append(len(self.name))

    frozen = form_of(Frozen, Checked("abc"))
    assert frozen == Frozen("abc", [3])
    assert form_of(Checked, Frozen("ab"), sizes=[]).sizes == [2]
    first, second = (form_of(Frozen, GPU, name="x") for _ in range(2))
    assert first == second
    assert first.sizes is not second.sizes
