"""Runs TTGIR modules before and after the passes in the tests' machine, and counts those that store the same.

    python -m bench.foreign.interpret DIR [--jobs N] [--seconds S]

DIR is what `python -m bench.foreign --dump DIR` left. The machine (test/unit/support/module_machine.py) tells
every element from every other; modules with operations that it does not know, or that take longer, are counted
apart. The exit status is 1 if a module stores something else.
"""

from __future__ import annotations

import re
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from ..harness.cases import say
from ..harness.child import scatter
from ..harness.options import Parser

TESTS = Path(__file__).parents[2] / "test" / "unit" / "support"
SAME, UNCHANGED, UNKNOWN, LONG = "same", "unchanged", "unknown operation", "too long"


class _TooLong(Exception):
    """The time of a module is up."""


def _stop(number: int, frame: FrameType | None) -> None:
    raise _TooLong


def judge(path: Path, seconds: int) -> tuple[str, str]:
    """(what became of a module, details)."""
    sys.path.insert(0, str(TESTS))
    import module_equivalence as equivalence  # type: ignore[import-not-found]
    from machine_operations import Unsupported  # type: ignore[import-not-found]

    text = path.read_text()
    signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        root = equivalence.upstream(text)
        before = equivalence.ran(root)
        if not any(len(memory.addresses) for memory in before.stored):
            return "stores nothing", ""
        after = equivalence.stays_the_same(text, equivalence.PASSES, before)
        return (UNCHANGED if str(after) == str(root) else SAME), ""
    except _TooLong:
        return LONG, ""
    except Unsupported as problem:
        return UNKNOWN, str(problem)
    except AssertionError as problem:
        return "DIFFERS", str(problem)[:300]
    except Exception as problem:
        return "error", re.sub(r"\s+", " ", f"{type(problem).__name__}: {problem}")[:300]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def main(argv: Sequence[str] | None = None) -> int:
    """Judge every module of a folder."""
    parser = Parser("foreign.interpret", __doc__, whole=True).only("modules").workers("--jobs", 2)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=int, default=20, help="of processor time, for one module")
    options = parser.parse_args(argv)
    found: Counter[str] = Counter()
    details: Counter[tuple[str, str]] = Counter()
    paths = [path for path in sorted(options.folder.glob("*.ttgir")) if re.search(options.only, path.name)]

    def done(number: int, judged: Any) -> None:
        what, why = ("error", judged["error"]) if isinstance(judged, dict) else judged
        found[what] += 1
        if why:
            details[what, why] += 1
        if what in ("DIFFERS", "error"):
            print(f"{paths[number].name}: {what} {why}", flush=True)
        if found.total() % 20 == 0:
            say(f"{found.total()}/{len(paths)}: {dict(found)}")

    calls = [(path, options.seconds) for path in paths]
    scatter(judge, calls, options.jobs, done, patience=float("inf"))
    for (what, why), count in details.most_common():
        if what == UNKNOWN:
            print(f"  {count} {why}")
    print(f"{len(paths)} modules: " + ", ".join(f"{count} {what}" for what, count in found.most_common()))
    return int(bool(found["DIFFERS"] or found["error"]))


if __name__ == "__main__":
    sys.exit(main())
