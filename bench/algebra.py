"""What the commonest operations of the algebra take, by themselves.

Counted are the calls of the layout type and of the functions over F2 while the passes run over some modules,
each with nothing remembered. Timed is each operation on the layouts of a conversion from a product of matrix
cores to rows: microseconds of processor time, the least of some processes. "Again" is a call with operands that
were there before, as most are in a compile.

    python -m bench.algebra FOLDER_OR_FILE.ttgir... [--beside TREE] [--samples 9] [--output FOLDER]

`--beside` times another checkout of this project in the same turns.
"""

from __future__ import annotations

import cProfile
import functools
import json
import os
import pstats
import subprocess
import sys
import time
import timeit
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.harness.options import Parser
from bench.harness.report import page, table
from bench.harness.results import publish
from bench.harness.turns import in_turns
from triton_linear.dialect import encodings, f2
from triton_linear.dialect.linear_layout import LANE, REGISTER, LinearLayout

ROOT = Path(__file__).parents[1]
SOURCE = "#ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}>"
TARGET = "#ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>"
SHAPE = (128, 128)
COMMONEST = 5
CALLS = 2000
ONE = "--one-sample"
"""Asks a process for one sample, as JSON."""


def operations() -> dict[str, Callable[[], object]]:
    """A call of each operation, by its name and, behind a comma, what is said of its operands."""
    source, target = (encodings.layout_of(text, SHAPE) for text in (SOURCE, TARGET))
    columns, others = source.matrix(), target.matrix()
    span = f2.Echelon(columns)
    computed = LinearLayout.invert_and_compose
    computed = getattr(computed, "__wrapped__", computed)
    remembered = functools.lru_cache(lambda layout: layout)
    return {
        "multiply_vector": lambda: f2.multiply_vector(columns, 0b101),
        "solve": lambda: span.solve(others[3] ^ others[8]),
        "enlarges": lambda: f2.enlarges({}, 5),
        "rank": lambda: f2.rank(columns),
        "extend": lambda: f2.extend(columns[:6], others),
        "intersection": lambda: f2.intersection(columns[:8], others[:8]),
        "columns": lambda: source.columns(LANE),
        "has_in_dim": lambda: source.has_in_dim(LANE),
        "in_dim_size": lambda: source.in_dim_size(REGISTER),
        "remove_zero_bases": lambda: source.remove_zero_bases(REGISTER),
        "fitted": lambda: LinearLayout.fitted(source.bases, source.out_dims),
        "found in a cache": lambda: remembered(source),
        "invert_and_compose, new": lambda: computed(source, target),
        "invert_and_compose, again": lambda: source.invert_and_compose(target),
    }


def sample() -> dict[str, float]:
    """Microseconds of a call of each operation."""
    found = {}
    for name, call in operations().items():
        timer = timeit.Timer(call, timer=time.process_time)
        found[name] = 1e6 * min(timer.repeat(3, CALLS)) / CALLS
    return found


def sample_of(tree: Path) -> dict[str, float]:
    """The same of a checkout, in a process of its own."""
    environment = os.environ | {"PYTHONPATH": f"{tree / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "bench.algebra", ONE]
    done = subprocess.run(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def calls(paths: Sequence[Path]) -> Counter[str]:
    """How often the functions of the algebra are called while the passes run over modules, by their names."""
    # A process that samples another checkout must not need these: they may be elsewhere in it.
    from bench.pass_time import forget, target_of
    from triton_linear.dialect import bridge
    from triton_linear.lowering.target import targets
    from triton_linear.passes import attempts
    from triton_linear.passes.options import PipelineOptions

    profile = cProfile.Profile()
    for path in paths:
        text = path.read_text()
        target = targets.target(target_of(text))
        module = bridge.text_to_upstream(text, bridge.upstream_context())
        options = attempts.concerning(PipelineOptions(), module)
        forget()
        profile.runcall(attempts.prepare, module, options, target)
    profile.create_stats()
    found: Counter[str] = Counter()
    files = {"f2.py", "labelled_matrix.py", "linear_layout.py"}
    for (file, _, name), (_, count, *_) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        if Path(file).name in files and not name.startswith(("_", "<")):
            found[name] += count
    return found


def markdown(result: dict[str, Any]) -> str:
    """The table for people."""
    counts, trees = result["calls"], result["microseconds"]
    often = sorted(trees[0], key=lambda name: -counts.get(name.partition(",")[0], 0))
    rows = []
    for name in often:
        times = [tree[name] for tree in trees]
        count = counts.get(name.partition(",")[0])
        cells = [f"{each:.2f}" for each in times]
        ratio = [f"{times[0] / times[1]:.2f}"] if len(times) > 1 else []
        rows.append((name, "" if count is None else f"{count / result['modules']:.0f}", *cells, *ratio))
    heads = "now: | before: | now of before:" if len(trees) > 1 else "now:"
    timed = {name.partition(",")[0] for name in often}
    others = [f"{name} {count}" for name, count in counts.items() if name not in timed]
    return page(
        f"Operations of the algebra, Python {result['python']}, {result['machine']}, {result['date']}: "
        f"microseconds of processor time, least of {result['samples']}. Calls are those of a module, of "
        f"{result['modules']}.",
        "",
        *table(f"operation | calls: | {heads}", rows),
        "",
        f"Called as well, in all modules: {', '.join(others[:COMMONEST])}.",
    )


def main(argv: Sequence[str] | None = None) -> int:
    if list(sys.argv[1:] if argv is None else argv) == [ONE]:
        print(json.dumps(sample()))
        return 0
    asked = Parser("algebra", __doc__).modules("+").output()
    asked.add_argument("--samples", type=int, default=9)
    asked.add_argument("--beside", type=Path, metavar="TREE", help="another checkout, timed in the same turns")
    options = asked.parse_args(argv)
    trees = [ROOT, *([] if options.beside is None else [options.beside])]
    taken = in_turns({str(tree): functools.partial(sample_of, tree) for tree in trees}, options.samples)
    least = [{name: min(each[name] for each in taken[str(tree)]) for name in operations()} for tree in trees]
    from bench.replay import files_in

    found = files_in(options.paths)
    counts = dict(calls(found).most_common())
    publish(
        options.output,
        "algebra",
        markdown,
        samples=options.samples,
        modules=len(found),
        calls=counts,
        microseconds=least,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
