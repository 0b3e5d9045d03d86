"""Models of `transformers` through torch.compile, with stock Triton and with the plugin.

    python -m bench.models [--output DIR] [--only REGEX] [--budget SECONDS] [--cards N] [--plugin OPTIONS]

A case is a model that is trained or asked for results (`--list`). Each has two processes with caches of their
own, one with stock Triton and one with the plugin, which compile at the same time as those of other cases.
Then the two take turns: the profiler says how long each kernel of a step takes on the GPU. The plugin's kernels
are timed in the configurations that its own process chose ("free") and in those of stock Triton's ("equal").
Cases are shared over GPUs, and at the end of the budget those that are not over are left out. Writes
models.json and models.md after every case; the exit status is 1 if a result is wrong, or the plugin fails.
`--dry` checks every case at a small size on the CPU. `--join` makes one report of several.
"""

from __future__ import annotations

import argparse
import math
import os
import queue
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ..harness import results
from ..harness.cases import Run, chosen, say
from ..harness.child import Child, Failed
from ..harness.options import Parser
from . import figures, process, zoo
from .card import Card
from .process import Place
from .report import case_line, markdown, wrong
from .tuners import EQUAL, FREE, PLUGIN, STOCK
from .work import verdict
from .zoo import Case

SLOTS = 4
"""Cases that prepare on a GPU at once: most of that is one thread's work."""
SHORTEST = 75.0
"""Seconds that a case takes at least: none is begun that cannot end."""
GRACE = 10.0
"""Seconds of the budget that are kept for the end."""
LONGEST = 86_400.0
"""The budget of a run that names none."""
STEP_MS, MOST_STEPS = 60.0, 8
"""A round of one way takes about so long."""

Ask = Callable[..., Any]


class Late(Exception):
    """There is no time left."""


class Pair:
    """The two processes of a case, and how long they may take."""

    def __init__(self, places: Mapping[str, Place], until: float, child: Callable[..., Any] = Child) -> None:
        self._until = until
        self._children = {side: child(process.start, place) for side, place in places.items()}

    def ask(self, side: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call in the process of that side. Raises Late at the end of the time, else what is raised there."""
        child = self._children[side]
        child.patience = max(0.1, self._until - time.monotonic())
        try:
            return child.ask(function, *arguments)
        except Exception:
            if time.monotonic() >= self._until:
                raise Late from None
            raise

    def facts(self, side: str) -> dict[str, Any]:
        """What its start gave."""
        return dict(self._children[side].facts)

    def close(self) -> None:
        for child in self._children.values():
            child.close()


def measured(case: Case, pair: Pair, card: Card, folder: Path, rounds: int) -> dict[str, Any]:
    """The record of a case. Raises Late."""
    begun = time.perf_counter()
    made: dict[str, Any] = {"name": case.name, "after": case.model.after, "shape": list(case.shape)}
    with ThreadPoolExecutor(2) as pool:
        asked = {side: pool.submit(pair.ask, side, process.prepare, case.name) for side in (STOCK, PLUGIN)}
        prepared, errors = {}, {}
        for side, future in asked.items():
            try:
                prepared[side] = future.result()
            except Late:
                raise
            except Exception as error:
                errors[side] = Failed.of(error).facts()
    made["prepared"] = {
        side: {k: v for k, v in one.items() if k != "kernels"} for side, one in prepared.items()
    }
    if errors:
        return made | {"errors": errors}
    try:
        adopted = pair.ask(PLUGIN, process.adopt, pair.ask(STOCK, process.choices))
        ready = time.perf_counter()
        with card.held():  # Who has it at the end of the time is killed then.
            made["results"] = compared(pair, folder, adopted)
            ways = (STOCK, FREE, EQUAL) if any("config" in each for each in adopted.values()) else (STOCK, FREE)
            steps = steps_for(prepared[STOCK]["milliseconds"])
            times = in_rounds(pair, ways, steps, rounds)
    except Late:
        raise
    except Exception as error:
        return made | {"errors": {"measuring": Failed.of(error).facts()}}
    made["steps"] = steps
    made["seconds"] = {"ready": round(ready - begun, 1), "all": round(time.perf_counter() - begun, 1)}
    return made | figures.record(prepared[STOCK], prepared[PLUGIN], adopted, times)


def compared(pair: Pair, folder: Path, adopted: Mapping[str, Any]) -> dict[str, Any]:
    """What the results of each way are, beside stock Triton's."""
    path = folder / "results"
    noise = pair.ask(STOCK, process.write, path)
    found = {STOCK: noise}
    for way in (FREE, EQUAL) if any("config" in each for each in adopted.values()) else (FREE,):
        there = pair.ask(PLUGIN, process.compare, path, way)
        found[way] = there | {"verdict": verdict(there, noise)}
    return found


def steps_for(milliseconds: float) -> int:
    """How many steps of so long are in a round.

    >>> steps_for(25.0), steps_for(500.0), steps_for(0.5)
    (3, 2, 8)
    """
    return max(2, min(MOST_STEPS, math.ceil(STEP_MS / max(milliseconds, 1e-3))))


def in_rounds(pair: Pair, ways: Sequence[str], steps: int, rounds: int) -> dict[str, list[dict[str, Any]]]:
    """What each way measures in each round, in an order that changes."""
    found: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
    for number in range(rounds):
        for step in range(len(ways)):
            way = ways[(number + step) % len(ways)]
            found[way].append(pair.ask(STOCK if way == STOCK else PLUGIN, process.measure, way, steps))
    return found


class Cards:
    """The GPUs of a run, each with its share of the cores, and the folder that all processes work in."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.names = cards_of(options.cards)
        self.folder, self.options = folder, options
        cores = sorted(os.sched_getaffinity(0))
        each = max(1, len(cores) // max(1, len(self.names)))
        self._cores = [tuple(cores[each * n : each * (n + 1)]) for n in range(len(self.names))]
        self.threads = options.threads or max(2, each // options.slots)

    def lock(self, card: int) -> Path:
        return self.folder / f"card{card}.lock"

    def places(self, card: int, case: Case) -> dict[str, Place]:
        """Where the processes of a case work."""
        where = self.folder / case.name.replace("/", "-")
        return {
            side: Place(
                self.names[card], self.lock(card), where / side, plugin, self.threads, self._cores[card]
            )
            for side, plugin in ((STOCK, None), (PLUGIN, self.options.plugin))
        }


def cards_of(most: int | None) -> list[str]:
    """The GPUs, as CUDA_VISIBLE_DEVICES names them. Raises SystemExit where there is none."""
    told = os.environ.get("CUDA_VISIBLE_DEVICES")
    if told:
        found = told.split(",")
    else:
        try:
            listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.CalledProcessError) as error:
            raise SystemExit(f"models: no NVIDIA GPU here: {error}; there is --dry") from error
        found = [str(number) for number, line in enumerate(listed.splitlines()) if line.startswith("GPU")]
    if not found:
        raise SystemExit("models: no NVIDIA GPU here; there is --dry")
    return found[:most]


def execute(options: argparse.Namespace, cases: Sequence[Case]) -> dict[str, Any]:
    """The report of a run, written after every case."""
    run = Run(lambda report: write(report, options.output), options.budget)
    begun = time.monotonic()
    until = begun + (options.budget or LONGEST) - GRACE
    waiting: queue.SimpleQueue[Case] = queue.SimpleQueue()
    for case in cases:
        waiting.put(case)
    lock, folder = threading.Lock(), Path(tempfile.mkdtemp(prefix="models"))
    cards = Cards(options, folder)
    run.heading(heading(cards))

    def one(case: Case, card: int) -> None:
        places = cards.places(card, case)
        where = places[STOCK].folder.parent
        where.mkdir(parents=True, exist_ok=True)
        pair = Pair(places, until)
        try:
            record = measured(case, pair, Card(cards.lock(card)), where, options.rounds)
            with lock:
                run.report |= pair.facts(STOCK)
                run.add(record, case_line(record))
        except Late:
            with lock:
                run.report["not_run"].append(case.name)
                say(f"{case.name}: not measured, cut off [{run.spent:.0f} s]")
        except Exception as error:
            with lock:
                run.add({"name": case.name, "errors": {"running": Failed.of(error).facts()}}, case.name)
        finally:
            pair.close()
            shutil.rmtree(where, ignore_errors=True)

    def slot(card: int) -> None:
        while True:
            try:
                case = waiting.get_nowait()
            except queue.Empty:
                return
            if time.monotonic() + SHORTEST > until:
                with lock:
                    run.report["not_run"].append(case.name)
                continue
            one(case, card)

    threads = [
        threading.Thread(target=slot, args=(card,))
        for _ in range(options.slots)
        for card in range(len(cards.names))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    shutil.rmtree(folder, ignore_errors=True)
    order = [case.name for case in cases]
    run.report["cases"].sort(key=lambda record: order.index(record["name"]))
    run.report["not_run"].sort(key=order.index)
    run.save()
    return run.report


def heading(cards: Cards) -> dict[str, Any]:
    """What a report is of; the first process that starts says what is not known yet."""
    return {
        **dict.fromkeys(("device", "target", "torch", "transformers"), "unknown"),
        **results.versions(),
        "plugin": cards.options.plugin,
        "cards": len(cards.names),
        "slots": cards.options.slots,
        "threads": cards.threads,
    }


def join(paths: Sequence[Path]) -> dict[str, Any]:
    """One report of several of the same device and versions; of a case that is in two, the later one counts."""
    same = ("device", "torch", "transformers", "triton", "triton_linear", "plugin")
    return results.join("models", paths, same, lambda record: record["name"])


def write(report: Mapping[str, Any], folder: Path) -> None:
    """The JSON and the page."""
    results.save(folder, "models", markdown, report, indent=None)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = Parser("models", __doc__, whole=True).output().only()
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="be over after so long")
    parser.add_argument("--rounds", type=int, default=9, help="turns of each way (default 9)")
    parser.add_argument("--cards", type=int, metavar="N", help="GPUs, at most (default all)")
    parser.add_argument("--slots", type=int, default=SLOTS, help=f"cases at once on a GPU (default {SLOTS})")
    parser.add_argument("--threads", type=int, help="Inductor's workers in each process")
    parser.add_argument(
        "--plugin", default="1", metavar="OPTIONS", help="as in the variable TRITON_LINEAR (default 1)"
    )
    parser.add_argument("--dry", action="store_true", help="check the cases on the CPU, at a small size")
    return parser.join().list().parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run and write; see the module's docstring."""
    options = parse(argv)
    wanted = chosen("models", zoo.cases(), options.only)
    if options.list:
        for case in wanted:
            print(f"{case.name:16}  {case.model.after}, {case.shape[0]} x {case.shape[1]}")
        return 0
    if options.dry:
        from . import dry

        return dry.check(wanted)
    if options.join:
        report = join(options.join)
        write(report, options.output)
    else:
        report = execute(options, wanted)
    print(markdown(report), end="")
    bad = wrong(report)
    for text in bad:
        say(f"models: {text}")
    say(
        f"models: {len(report['cases'])} cases, {len(bad)} failures, {len(report['not_run'])} not measured, in "
        f"{report['seconds']:.0f} s; {options.output / 'models.json'}"
    )
    return int(bool(bad))
