"""A strict reader of what we write: stricter than any client, so that nothing sloppy passes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"<!\[CDATA\[(?P<cdata>.*?)\]\]>"
    r"|<\?xml [^<>]*\?>"
    r"|<!--.*?-->"
    r'|<(?P<open>\w+)(?P<attributes>(?: \w+="[^"<>&]*")*)(?P<empty>/?)>'
    r"|</(?P<close>\w+)>"
    r"|(?P<text>[^<]+)",
    re.DOTALL,
)
_ENTITY = re.compile(r"&(\w+);")
_ENTITIES = {"lt": "<", "gt": ">", "amp": "&", "quot": '"'}


@dataclass
class Element:
    """An element: its text if it has no children, else its children."""

    tag: str
    attributes: str = ""
    text: str = ""
    children: list[Element] = field(default_factory=list["Element"])

    def get(self, tag: str, default: str = "") -> str:
        """The text of the first child of that name."""
        return next((child.text for child in self.children if child.tag == tag), default)

    def has(self, tag: str) -> bool:
        return any(child.tag == tag for child in self.children)

    def all(self, tag: str) -> list[Element]:
        return [child for child in self.children if child.tag == tag]

    def path(self, *tags: str) -> Element:
        element = self
        for tag in tags:
            element = element.all(tag)[0]
        return element

    @property
    def tags(self) -> list[str]:
        return [child.tag for child in self.children]


def read_elements(data: bytes | str) -> Element:
    """Read a document with exactly one root; AssertionError for anything that is not well-formed."""
    text = data.decode("utf-8") if isinstance(data, bytes) else data
    top = Element("")
    open_elements = [top]
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        assert match, f"unreadable at {position}: {text[position : position + 60]!r}"
        position = match.end()
        current = open_elements[-1]
        if match["cdata"] is not None:
            current.text += match["cdata"]
        elif match["text"] is not None:
            current.text += _ENTITY.sub(lambda entity: _ENTITIES[entity[1]], match["text"])
            assert "&" not in _ENTITY.sub("", match["text"])
        elif match["open"]:
            element = Element(match["open"], match["attributes"].strip())
            current.children.append(element)
            if not match["empty"]:
                open_elements.append(element)
        elif match["close"]:
            closed = open_elements.pop()
            assert closed.tag == match["close"], f"</{match['close']}> closes <{closed.tag}>"
            if closed.children:
                assert not closed.text.strip(), (
                    f"text between the children of <{closed.tag}>: {closed.text!r}"
                )
                closed.text = ""
    assert open_elements == [top], f"<{open_elements[-1].tag}> is not closed"
    assert not top.text.strip()
    (root,) = top.children
    return root
