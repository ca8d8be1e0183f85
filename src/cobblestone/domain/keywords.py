"""Keywords: what jobs are about and where they come from, as volunteers choose or refuse them.

Numbers, names and tree are those of the family's central list, so that a choice made at an account manager means the same
everywhere.  Source: BOINC's ``html/inc/keywords.inc`` (facts; three institutes stand there under the wrong country).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cobblestone.domain.errors import JobError


@dataclass(frozen=True, slots=True)
class Keyword:
    """A subject or a place."""

    id: int
    name: str
    parent: int = 0  #: a wider one; 0: none


def keyword(number: int, name: str, parent: int = 0) -> Keyword:
    """Return a keyword whose name is translated."""
    return Keyword(number, name, parent)


_LIST = (
    keyword(1, "Astronomy"),
    keyword(2, "Search for Extraterrestrial Intelligence", 1),
    keyword(3, "Detection and study of pulsars", 1),
    keyword(4, "Detection and study of gravitational waves", 1),
    keyword(5, "Cosmology", 1),
    keyword(6, "Physics"),
    keyword(7, "Particle physics", 6),
    keyword(8, "Nanoscience", 6),
    keyword(9, "Biology and Medicine"),
    keyword(10, "Drug discovery", 9),
    keyword(11, "Protein research", 9),
    keyword(12, "Genetics and Phylogeny", 9),
    keyword(13, "Disease research", 9),
    keyword(17, "Diabetes research", 13),
    keyword(14, "Cancer research", 13),
    keyword(18, "Prostate cancer research", 14),
    keyword(19, "Breast cancer research", 14),
    keyword(15, "Mathematics and Computer Science"),
    keyword(32, "Number Theory", 15),
    keyword(33, "Cryptography", 15),
    keyword(16, "Artificial Intelligence and Cognitive Science"),
    keyword(29, "Earth sciences"),
    keyword(34, "Environmental research", 29),
    keyword(35, "Climate research", 29),
    keyword(20, "Europe"),
    keyword(27, "CERN", 20),
    keyword(36, "Czech Republic", 20),
    keyword(37, "Charles University in Prague", 36),
    keyword(21, "Germany", 20),
    keyword(26, "Albert Einstein Institute for Gravitational Physics", 21),
    keyword(38, "Rechenkraft.net e.V", 21),
    keyword(39, "Hochschule RheinMain University of Applied Sciences", 21),
    keyword(40, "Hungary", 20),
    keyword(41, "Ireland", 20),
    keyword(42, "University College Dublin", 41),
    keyword(43, "Poland", 20),
    keyword(44, "Russia", 20),
    keyword(45, "Southwest State University, Russia", 44),
    keyword(46, "Russian Academy of Science", 44),
    keyword(30, "Spain", 20),
    keyword(31, "San Jorge University, Zaragoza, Spain", 30),
    keyword(47, "Barcelona Biomedical Research Park", 30),
    keyword(48, "United Kingdom", 20),
    keyword(49, "Oxford University", 48),
    keyword(22, "Asia"),
    keyword(50, "China", 22),
    keyword(23, "Americas"),
    keyword(24, "United States", 23),
    keyword(25, "University of California, Berkeley", 24),
    keyword(28, "University of Washington", 24),
    keyword(51, "University of Dayton", 24),
    keyword(52, "Wright State University", 24),
    keyword(53, "University of Southern California", 24),
    keyword(54, "California State University Fullerton", 24),
    keyword(55, "Arizona State University", 24),
)
#: By number; subjects first, each behind its wider one.
KEYWORDS = {each.id: each for each in _LIST}


_PLACES = frozenset({20, 22, 23})


def is_place(number: int) -> bool:
    """Return whether a keyword of the list is where research is done, not what it is about."""
    return not _PLACES.isdisjoint(with_wider((number,)))


def with_wider(numbers: Iterable[int]) -> tuple[int, ...]:
    """Return keywords with all wider ones, in ascending order, so that who refuses medicine gets no cancer research.

    Raises:
        JobError: the list has no such number.
    """
    found: set[int] = set()
    waiting = list(numbers)
    while waiting:
        number = waiting.pop()
        if number not in KEYWORDS:
            raise JobError(f"There is no keyword {number}. List them: cobblestone app keywords")
        found.add(number)
        if parent := KEYWORDS[number].parent:
            waiting.append(parent)
    return tuple(sorted(found))
