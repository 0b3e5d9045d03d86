"""Every run of the tests draws the same random input: whether they pass depends on the code alone."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import settings

TESTS = Path(__file__).parents[2]
UNSEEDED = re.compile(
    r"\bRandom\(\)|\bdefault_rng\(\)|\burandom\(|\bSystemRandom\b|\bsecrets\.|\buuid\d|^from random import"
    r"|(?<!\.)\brandom\.(seed\(\)|(rand(int|range|bytes)|choices?|shuffle|sample|uniform)\()"
)
HERE = Path(__file__)


def test_examples_of_properties_are_the_same_however_busy_the_machine_is() -> None:
    """Of settings that a test states as well: they begin with these."""
    for stated in (settings(), settings(max_examples=7)):
        assert stated.derandomize and stated.deadline is None


def test_no_generator_is_without_a_seed() -> None:
    found = [
        f"{path.relative_to(TESTS)}:{number}: {line.strip()}"
        for path in sorted(TESTS.rglob("*.py"))
        if path != HERE
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if UNSEEDED.search(line)
    ]
    assert not found
