"""`--verify-diagnostics`: compare diagnostics with the expectations in comments.

    // expected-error@+1 {{requires the same shape}}
    // expected-remark-re@above {{plan: {{[a-z-]+}}}}

The forms are MLIR's: severity `error`, `warning`, `remark` or `note`; an optional `-re`, in which `{{...}}`
inside the text is a regular expression; `@+N`, `@-N`, `@above`, `@below` (by default the comment's own line),
or `@unknown` for a diagnostic without a place. The text must occur in the message. Each expectation must be
met by exactly one diagnostic. A diagnostic without an expectation is an error, unless only expected ones are
compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from triton_linear.tools.support.errors import Diagnostic

_EXPECTATION = re.compile(
    r"expected-(?P<severity>error|warning|remark|note)(?P<re>-re)? *"
    r"(?:@(?P<place>[+-]\d+|above|below|unknown))? *\{\{(?P<text>.*)\}\}\s*$"
)
_LOOKALIKE = re.compile(r"expected-(?:error|warning|remark|note)")


@dataclass(frozen=True)
class Expectation:
    """A diagnostic that is expected on line `line` (0: without a place); the comment is on line `written`."""

    severity: str
    pattern: str
    text: str
    line: int
    written: int

    def meets(self, diagnostic: Diagnostic) -> bool:
        """Whether this diagnostic meets the expectation."""
        return (
            diagnostic.severity == self.severity
            and diagnostic.line == self.line
            and re.search(self.pattern, diagnostic.message) is not None
        )


def _pattern(text: str, regex: bool) -> str:
    if not regex:
        return re.escape(text)
    pieces = re.split(r"\{\{(.*?)\}\}", text)
    return "".join(f"(?:{piece})" if i % 2 else re.escape(piece) for i, piece in enumerate(pieces))


def expectations(source: str, file: str) -> tuple[list[Expectation], list[Diagnostic]]:
    """The expectations in a file's comments, and errors for comments that cannot be parsed."""
    found: list[Expectation] = []
    errors: list[Diagnostic] = []
    code_lines = [i for i, line in enumerate(source.split("\n"), 1) if _LOOKALIKE.search(line) is None]
    for number, line in enumerate(source.split("\n"), 1):
        if "//" not in line or _LOOKALIKE.search(line) is None:
            continue
        match = _EXPECTATION.search(line)
        if match is None:
            errors.append(
                Diagnostic("error", "cannot read this expectation", file, number, line.index("//") + 1)
            )
            continue
        place = match["place"]
        target: int | None = number
        if place == "unknown":
            target = 0
        elif place == "above":
            target = max((i for i in code_lines if i < number), default=None)
        elif place == "below":
            target = min((i for i in code_lines if i > number), default=None)
        elif place:
            target = number + int(place)
        if target is None:
            errors.append(Diagnostic("error", f"no line is {place} this expectation", file, number, 1))
            continue
        text = match["text"]
        found.append(Expectation(match["severity"], _pattern(text, bool(match["re"])), text, target, number))
    return found, errors


def _flattened(diagnostics: Iterable[Diagnostic]) -> Iterator[Diagnostic]:
    for diagnostic in diagnostics:
        yield diagnostic
        yield from _flattened(diagnostic.notes)


def compare(
    source: str, file: str, diagnostics: Iterable[Diagnostic], only_expected: bool = False
) -> list[Diagnostic]:
    """Errors for unmet expectations and for unexpected diagnostics; empty if there are none."""
    expected, errors = expectations(source, file)
    for diagnostic in _flattened(diagnostics):
        match = next((e for e in expected if e.meets(diagnostic)), None)
        if match is not None:
            expected.remove(match)
        elif not only_expected:
            message = f"unexpected {diagnostic.severity}: {diagnostic.message}"
            errors.append(
                Diagnostic("error", message, diagnostic.file or file, diagnostic.line, diagnostic.column)
            )
    for expectation in expected:
        message = f'expected {expectation.severity} "{expectation.text}" was not produced'
        errors.append(Diagnostic("error", message, file, expectation.written, 1))
    return errors
