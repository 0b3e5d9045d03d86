"""Runs the tools on wrong modules and command lines; none may end in anything but a diagnostic.

python test/fuzz_inputs.py --time 600 --seed 1

The exit status is 1 where one did; its input is left in a folder that is named.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "unit" / "support"))

from input_mutants import Case, case
from input_runs import Runner


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--time", type=float, default=600, help="seconds (default %(default)s)")
    parser.add_argument("--count", type=int, help="run so many instead")
    parser.add_argument("--seed", type=int, default=1, help="what to draw from (default %(default)s)")
    parser.add_argument("--flags", type=float, default=0.15, help="part with wrong flags (default %(default)s)")
    parser.add_argument("--seconds", type=int, default=30, help="that a run may take (default %(default)s)")
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz_inputs"), help="default: %(default)s")
    chosen = parser.parse_args(argv)
    began = time.perf_counter()

    def cases() -> Iterator[Case]:
        rng = random.Random(chosen.seed)
        done = 0
        while done < chosen.count if chosen.count is not None else time.perf_counter() - began < chosen.time:
            yield case(rng, chosen.flags)
            done += 1

    with tempfile.TemporaryDirectory(prefix="fuzz-inputs-") as folder:
        found = Runner(Path(folder), chosen.seconds).tally(cases())
    for number, (outcome, wrong, ended) in enumerate(found.findings):
        chosen.keep.mkdir(parents=True, exist_ok=True)
        path = chosen.keep / f"{chosen.seed}-{number}.ttgir"
        path.write_bytes(wrong.content or b"")
        what = f"{outcome}: {wrong.shown}  ({wrong.what})\n{ended.out[-500:]}{ended.err[-3000:]}"
        path.with_suffix(".txt").write_text(what, errors="backslashreplace")
        print(f"{path}: {outcome}: {wrong.shown}")
    took = time.perf_counter() - began
    print(
        f"seed {chosen.seed}: {found.cases} inputs in {took:.0f} s, {len(found.findings)} not as they must be"
    )
    for outcome, count in sorted(found.outcomes.items()):
        print(f"  {count:6} {outcome}")
    return int(bool(found.findings))


if __name__ == "__main__":
    sys.exit(main())
