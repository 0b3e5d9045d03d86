"""Mistakes that someone could make in the code that decides whether a conversion is right.

Each names a function and an expression or statement of it (`anchors.py`), so that it outlives changes around
it. `test/mutants.py` makes them one at a time and runs the tests that are to catch them. Their lists are in
`code_mutants_*.py`, all of them in `code_mutants.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from anchors import AnchorError, replaced

PLANS = "test/unit/lowering/test_plans.py::test_every_plan_of_random_pairs[cuda:90]"
FUZZ = tuple(
    f"test/unit/bench/test_fuzz.py::test_random_pairs_are_lowered_right[{target}]"
    for target in ("cuda:90", "hip:gfx942", "hip:gfx950", "hip:gfx1100")
)
RUN = tuple(
    f"test/unit/tools/test_verify.py::test_emitted_conversions[{kind}]"
    for kind in ("nvidia", "amd", "cdna4", "rdna")
)
TRANSPOSING = "test/unit/lowering/test_plans.py::test_loads_of_cdna4_transpose"
PROVE = "test/unit/lowering/test_prove.py"
PROVED = f"{PROVE}::test_every_plan_of_random_pairs_is_proved"
WORDS = "test/unit/lowering/test_words.py"
SCRATCH = "test/unit/lowering/test_scratch.py"
PASSES = "test/unit/passes/test_passes.py"
SAME = "test/unit/passes/test_modules_compute_the_same.py"
VERIFY = "test/unit/tools/test_verify.py"
LIT = "test/lit/"


@dataclass(frozen=True)
class CodeMutant:
    """`old`, which the code of `function` in `file` has once, becomes `new`.

    `tests` are to catch it, the fastest first. Where plans are what is wrong (`planned`), the proof of plans
    stands before all tests, which run without it.
    """

    file: str
    function: str
    old: str
    new: str
    breaks: str
    tests: tuple[str, ...]
    planned: bool = False
    proof: str = PROVED
    """The test by which the proof shows whether it refutes such plans."""

    @property
    def name(self) -> str:
        return f"{self.file}: {self.breaks}"

    def of(self, text: str) -> str:
        """The file's text with the mistake in it."""
        try:
            return replaced(text, self.function, self.old, self.new)
        except AnchorError as error:
            raise AnchorError(f"the mistake '{self.breaks}' cannot be made in {self.file}: {error}") from None


def planned(
    file: str, function: str, old: str, new: str, breaks: str, *tests: str, proof: str = PROVED
) -> CodeMutant:
    tests = (*(tests or (PLANS,)), *FUZZ)
    return CodeMutant(f"lowering/{file}.py", function, old, new, breaks, tests, planned=True, proof=proof)


def emitted(file: str, function: str, old: str, new: str, breaks: str, *tests: str) -> CodeMutant:
    return CodeMutant(f"lowering/{file}.py", function, old, new, breaks, tests or (*RUN, *FUZZ))


def rewritten(file: str, function: str, old: str, new: str, breaks: str, *tests: str) -> CodeMutant:
    return CodeMutant(f"passes/{file}.py", function, old, new, breaks, tests)
