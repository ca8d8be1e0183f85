"""What the documentation site has beyond the files of docs/: start page, references, plain words for roles.

Read by mkdocs (``hooks`` in mkdocs.yml) and by mkdocstrings (:class:`PlainRoles`).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import cobblestone
from cobblestone.cli.docs import commands

ROOT = Path(__file__).parents[1]
STONES = ROOT / "src/cobblestone/service/pages/static/stones.svg"
PAGES = {"index.md": "README.md", "contributing.md": "CONTRIBUTING.md", "changes.md": "CHANGELOG.md"}
PYTHON = """# Python reference

What `import cobblestone` offers, with examples that the tests run. The way from a program to answers is in
[the scientist's guide](scientist.md#8-from-python).
"""
_ROLE = re.compile(r":(?:class|meth|func|data|mod|attr|exc):`~?([^`]+)`")
_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)
_TO_DOCS = re.compile(r"""((?:\]\(|src="|href="|srcset="))docs/""")
_OUTSIDE = re.compile(r"\[([^\]]*)\]\((?:\.\./)?((?:src|tests|tools|examples)/[^)\s]*|LICENSE|README\.md)\)")
_TITLES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changes.md"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that have their place elsewhere, and the references, made of the code."""
    for name, source in PAGES.items():
        text = _TO_DOCS.sub(r"\1", (ROOT / source).read_text(encoding="utf-8"))
        files.append(File.generated(config, name, content=text))
    files.append(File.generated(config, "python.md", content=PYTHON + "".join(map(_entry, _public()))))
    files.append(File.generated(config, "commands.md", content=commands()))
    files.append(File.generated(config, "pictures/stones.svg", abs_src_path=str(STONES)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Name what lies in the repository but not on the site, instead of linking to it."""
    for source, name in _TITLES.items():
        markdown = markdown.replace(f"](../{source}", f"]({name}").replace(f"]({source}", f"]({name}")
    return _OUTSIDE.sub(
        lambda found: f"{found[1]} (`{found[2]}`)" if found[2] not in found[1] else found[1], markdown
    )


def _public() -> list[Any]:
    names = ["connect", *sorted(set(cobblestone.__all__) - {"connect", "__version__"})]
    return [getattr(cobblestone, name) for name in names]


def _entry(thing: Any) -> str:
    return f"\n::: {thing.__module__}.{thing.__qualname__}\n"


class PlainRoles(griffe.Extension):
    """Docstrings have roles and bare examples, which Markdown does not know."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Write ``:class:`Batch``` as ```Batch```, and examples as code."""
        if obj.docstring is not None:
            text = _ROLE.sub(r"`\1`", obj.docstring.value).replace("``", "`")
            obj.docstring.value = _EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", text)
