"""What the plugin itself takes in a compile: milliseconds of processor time, by phase, over many modules.

A process takes each module once through the plugin's stage, with an empty cache on disk. Triton's stage behind
it compiles nothing, so what is left is the plugin: deciding whether anything can change, the way to MLIR and
back, the passes, the code that is put in, and what is kept on disk for the next process. Another module goes
first and pays for imports. Caches in memory stay from module to module, as in a server that compiles its
kernels.

The modules are those of the examples, and some of each folder, evenly spread over its files by name. Each
figure is the least of some processes, which take turns with those of another checkout.

    python -m bench.pass_time FOLDER... [--some 40] [--beside TREE] [--samples 9] [--output FOLDER]
"""

from __future__ import annotations

import functools
import gc
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bench.harness.options import Parser
from bench.harness.report import page, table
from bench.harness.results import publish
from bench.harness.turns import in_turns

ROOT = Path(__file__).parents[1]
TARGETS = ("cuda:90", "hip:gfx942")
"""The GPUs for which the examples are compiled."""
EXAMPLES = "examples"
WARM_UP = ROOT / "test" / "data" / "ttgir" / "softmax_row_plus_t-1.ttgir"
"""A module that goes through all passes and keeps a conversion."""
TOTAL = "all"
"""What stands for all phases."""
ONE = "--one-sample"
"""Asks a process for one sample, as JSON: of the modules in a file that names them."""


def modules(paths: Sequence[Path]) -> Iterator[Path]:
    """The files given, and those in folders given."""
    for path in paths:
        yield from sorted(path.glob("*.ttgir")) if path.is_dir() else [path]


def some_of(files: Sequence[Path], most: int) -> list[Path]:
    """At most so many files, evenly spread.

    >>> [path.name for path in some_of([Path(name) for name in "abcdef"], 3)]
    ['a', 'c', 'e']
    """
    count = min(most, len(files))
    return [files[at * len(files) // count] for at in range(count)]


def target_of(text: str) -> str:
    """The target that a module names."""
    return text.split('ttg.target = "', 1)[1].split('"', 1)[0]


def forget() -> None:
    """Empty every cache of this package but those that hold one thing, like the release that is installed."""
    for found in gc.get_objects():
        if not isinstance(found, functools._lru_cache_wrapper) or not found.__module__.startswith(
            "triton_linear"
        ):
            continue
        if found.__wrapped__.__code__.co_argcount:
            found.cache_clear()


def parser(bench: str, doc: str | None, many: str) -> Parser:
    """Modules, and how often each is timed."""
    found = Parser(bench, doc).modules(many).output()
    found.add_argument("--rounds", type=int, default=5)
    return found


def write_examples(folder: Path) -> list[Path]:
    """The modules of the examples, each in a file."""
    from triton_linear.examples import specs
    from triton_linear.examples.spec import gpu_target
    from triton_linear.tools.support.backend import ttgir_of

    files = []
    for target in TARGETS:
        gpu = gpu_target(target)
        for spec in specs(gpu):
            files.append(folder / f"{target.replace(':', '_')}-{spec.name}.ttgir")
            files[-1].write_text(str(ttgir_of(spec.source(), gpu, spec.options)))
    return files


def sample(files: Sequence[Path]) -> dict[str, dict[str, float]]:
    """Milliseconds of each phase by module, in this process."""
    from triton_linear import report
    from triton_linear.dialect import libtriton
    from triton_linear.setting import Setting
    from triton_linear.stage import LLIRStage

    clock: Any = SimpleNamespace(perf_counter=time.process_time)
    report.time = clock  # phases are to count processor time, not the work of others on this machine
    found: dict[str, dict[str, float]] = {}
    for path in (WARM_UP, *files):
        text = path.read_text()
        context = libtriton.triton_context()
        module = libtriton.parse_triton(text, context)
        reports: list[Any] = []
        stage = LLIRStage(lambda module, metadata: "", target_of(text), Setting(listeners=(reports.append,)))
        start = time.process_time()
        stage(module, {})
        milliseconds = 1e3 * (time.process_time() - start)
        if reports[0].error:
            raise RuntimeError(f"{path}: {reports[0].error}")
        phases = {name: 1e3 * seconds for name, seconds in reports[0].seconds.items()}
        found[str(path)] = {**phases, TOTAL: milliseconds}
    del found[str(WARM_UP)]
    return found


def sample_of(tree: Path, listed: Path) -> dict[str, dict[str, float]]:
    """The same of a checkout, in a process with a cache of its own; `listed` names the modules."""
    with tempfile.TemporaryDirectory() as cache:
        here = {"PYTHONPATH": f"{tree / 'src'}{os.pathsep}{ROOT}", "TRITON_CACHE_DIR": cache}
        command = [sys.executable, "-m", "bench.pass_time", ONE, str(listed)]
        environment = {"TRITON_DEFAULT_FP_FUSION": "1", **os.environ, **here}
        done = subprocess.run(command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    found: dict[str, dict[str, float]] = json.loads(done.stdout)
    return found


def least(samples: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[str, dict[str, float]]:
    """The least of each phase of each module."""
    return {
        name: {phase: min(each[name][phase] for each in samples) for phase in phases}
        for name, phases in samples[0].items()
    }


def measured(
    groups: Mapping[str, Sequence[Path]], trees: Sequence[Path], samples: int, say: Callable[[str], object]
) -> list[dict[str, Any]]:
    """Of each group the milliseconds of each phase, in sum over its modules, for each checkout."""
    rows = []
    for group, files in groups.items():
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as listed:
            listed.write("\n".join(map(str, files)))
            listed.flush()
            runs = {
                str(tree): functools.partial(sample_of, tree, Path(listed.name))
                for tree in dict.fromkeys(trees)
            }
            taken = in_turns(runs, samples)
        best = [least(taken[str(tree)]) for tree in trees]
        sums: list[Counter[str]] = [Counter() for _ in trees]
        for phases, of_tree in zip(sums, best, strict=True):
            for each in of_tree.values():
                phases.update(each)
        worst = max(best[0], key=lambda name: best[0][name][TOTAL])
        rows.append(
            {
                "group": group,
                "modules": len(best[0]),
                "milliseconds": [dict(phases) for phases in sums],
                "median": statistics.median(each[TOTAL] for each in best[0].values()),
                "worst": [Path(worst).stem, best[0][worst][TOTAL]],
            }
        )
        say(f"{group}: " + ", ".join(f"{phases[TOTAL]:.0f}" for phases in sums))
    return rows


def tables(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The milliseconds for people: by group, and by phase over all of them."""
    by_group, by_phase = [], []
    trees = len(rows[0]["milliseconds"])
    heads = "now: | before: | now of before:" if trees > 1 else "now:"

    def cells(times: Sequence[float]) -> list[str]:
        ratio = [f"{times[0] / times[1]:.3f}"] if trees > 1 and times[1] else [""] * (trees - 1)
        return [*(f"{each:.0f}" for each in times), *ratio]

    for row in rows:
        name, milliseconds = row["worst"]
        end = f"{row['median']:.1f}", f"{name} {milliseconds:.0f}"
        by_group.append(
            (row["group"], row["modules"], *cells([each[TOTAL] for each in row["milliseconds"]]), *end)
        )
    phases = dict.fromkeys(phase for row in rows for each in row["milliseconds"] for phase in each)
    for phase in phases:
        times = [sum(row["milliseconds"][tree].get(phase, 0.0) for row in rows) for tree in range(trees)]
        if max(times) >= 1:
            by_phase.append((phase, *cells(times)))
    return [
        *table(f"modules of | number: | {heads} | median now: | worst now", by_group),
        "",
        *table(f"phase | {heads}", by_phase),
    ]


def markdown(result: dict[str, Any]) -> str:
    """The page for people."""
    return page(
        f"What the plugin itself takes in a compile, Triton {result['triton']}, Python {result['python']}, "
        f"{result['machine']}, {result['date']}: milliseconds of processor time in sum over the modules, least "
        f"of {result['samples']}.",
        "",
        *tables(result["rows"]),
    )


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == [ONE]:
        print(json.dumps(sample([Path(line) for line in Path(arguments[1]).read_text().splitlines()])))
        return 0
    asked = Parser("pass_time", __doc__).modules("*").output()
    asked.add_argument("--some", type=int, default=40, help="modules of each folder (default 40)")
    asked.add_argument("--samples", type=int, default=9)
    asked.add_argument("--beside", type=Path, metavar="TREE", help="another checkout, timed in the same turns")
    options = asked.parse_args(arguments)
    trees = [ROOT, *([] if options.beside is None else [options.beside.resolve()])]
    with tempfile.TemporaryDirectory() as made:
        groups = {EXAMPLES: write_examples(Path(made))}
        for path in options.paths:
            groups[path.name] = some_of(list(modules([path.resolve()])), options.some)
        rows = measured(groups, trees, options.samples, functools.partial(print, file=sys.stderr))
    publish(options.output, "pass_time", markdown, samples=options.samples, rows=rows)
    return 0


if __name__ == "__main__":
    _status = main()
    sys.stdout.flush()
    os._exit(_status)  # or Triton's bindings would list what is still alive
