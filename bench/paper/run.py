"""Measures the paper's tables; what has been measured is kept, and a later run goes on from there.

    python -m bench.paper [--output DIR] [--only TABLE,...] [--match REGEX] [--budget SECONDS] [--fresh]

What needs no GPU runs anywhere. First everything is compiled, and what is not timed runs, on all cores; then
what is timed runs case by case with nothing else on the machine. Each case is a line of `paper.jsonl` when
it is done. Lines of other sources than these are measured anew, unless --keep keeps them.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from bench.harness import results
from bench.harness.child import Child, guarded, scatter
from bench.harness.options import Parser, some_of
from bench.harness.progress import progress
from triton_linear.dialect.sources import source_digest

from . import tables
from .report import write
from .table import Case, Record, Table

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Job:
    """A case of a table, by name: what crosses to another process."""

    table: str
    case: Case

    @property
    def key(self) -> tuple[str, str]:
        return self.table, self.case.key


class Kept:
    """What has been measured: a header, and a line for each case."""

    def __init__(
        self, path: Path, header: Mapping[str, Any], *, fresh: bool = False, keep: bool = False
    ) -> None:
        self.header, self.records = dict(header), dict[tuple[str, str], dict[str, Any]]()
        self.path = path
        if path.exists() and not fresh:
            self._read(keep)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._rewrite()

    def _read(self, keep: bool) -> None:
        lines = self.path.read_text().splitlines()
        old = json.loads(lines[0]) if lines else dict(self.header)
        # Tables that need no GPU may have run elsewhere before.
        for name in ("triton", "device", "torch"):
            if old.get(name) and self.header.get(name) and old[name] != self.header[name]:
                raise SystemExit(f"paper: {self.path} was measured on {old[name]}; --fresh begins again")
            self.header[name] = self.header.get(name) or old.get(name)
        self.header["seconds"] = old["seconds"]
        for line in lines[1:]:
            try:
                record = json.loads(line)
            except json.JSONDecodeError:  # The run was stopped while it wrote this.
                continue
            if keep or record["sources"] == self.header["sources"]:
                self.records[record["table"], record["key"]] = record

    def _rewrite(self) -> None:
        lines = [json.dumps(self.header), *map(json.dumps, self.records.values())]
        results.replaced(self.path, "\n".join(lines) + "\n")

    def add(self, job: Job, record: Record) -> None:
        """Keep what a case gave."""
        sources = self.header["sources"]
        line = {"table": job.table, "key": job.case.key, "sources": sources, "record": record}
        self.records[job.key] = line
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")

    def close(self, seconds: float) -> None:
        """The time that this run took, added to what the others did."""
        self.header["seconds"] = round(self.header["seconds"] + seconds, 1)
        self._rewrite()

    def of(self, table: str) -> dict[str, Record]:
        """The records of a table by key."""
        return {key: line["record"] for (name, key), line in self.records.items() if name == table}


def run_case(job: Job) -> Record:
    """What `job` gives, in whatever process this is."""
    return tables.table(job.table).run(job.case)


def prepare_case(job: Job) -> Record:
    """Compile what `job` will launch."""
    prepare = tables.table(job.table).prepare
    if prepare is not None:
        prepare(job.case)
    return {}


def start(cache: str) -> dict[str, Any]:
    """Ready the process that has the GPU; gives what there is to know of it."""
    os.environ["TRITON_CACHE_DIR"] = cache
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("no GPU")
    return {"device": torch.cuda.get_device_name(), "torch": torch.__version__}


def device() -> dict[str, Any] | None:
    """The GPU and PyTorch's version; None where there is no GPU. Another process is asked, which uses it."""
    found: list[Any] = []
    if importlib.util.find_spec("torch") is None:
        return None
    scatter(start, [(os.environ["TRITON_CACHE_DIR"],)], 1, lambda _, facts: found.append(facts))
    return None if "error" in found[0] else cast("dict[str, Any]", found[0])


def execute(options: argparse.Namespace) -> Kept:
    """Measure what is asked for and not there yet."""
    begun = time.monotonic()
    deadline = begun + options.budget if options.budget is not None else float("inf")
    os.environ["TRITON_CACHE_DIR"] = str(options.cache.resolve())
    facts = device()
    kept = Kept(options.output / "paper.jsonl", header(facts), fresh=options.fresh, keep=options.keep)
    timed, untimed = list[Job](), list[Job]()
    for name in options.only:
        table = tables.table(name)
        if table.gpu and facts is None:
            print(f"paper: {name} needs a GPU, and there is none here", flush=True)
            continue
        for job in jobs(name, table, options.match):
            known = kept.records.get(job.key)
            if known is None or (options.retry and "error" in known["record"]):
                (timed if table.timed else untimed).append(job)
    try:
        with progress("run", len(untimed)) as advance:

            def done(index: int, record: Record) -> None:
                kept.add(untimed[index], record)
                advance(" ".join(untimed[index].key))

            scatter(run_case, [(job,) for job in untimed], options.jobs, done, deadline=deadline)
        _timed(timed, kept, options, deadline)
    finally:
        kept.close(time.monotonic() - begun)
    return kept


def _timed(timed: Sequence[Job], kept: Kept, options: argparse.Namespace, deadline: float) -> None:
    ahead = [job for job in timed if tables.table(job.table).prepare is not None]
    with progress("compile", len(ahead)) as advance:

        def done(index: int, record: Record) -> None:
            advance(" ".join(ahead[index].key))
            if "error" in record:
                print(f"paper: {' '.join(ahead[index].key)}: {record['error'][:300]}", flush=True)

        scatter(prepare_case, [(job,) for job in ahead], options.jobs, done, deadline=deadline)
    child = Child(start, os.environ["TRITON_CACHE_DIR"])
    try:
        with progress("time", len(timed)) as advance:
            for job in timed:
                if time.monotonic() >= deadline:
                    break
                kept.add(job, guarded(child.ask, run_case, job))
                advance(" ".join(job.key))
    finally:
        child.close()


def jobs(name: str, table: Table, match: str) -> list[Job]:
    """The cases of a table whose keys match."""
    return [Job(name, case) for case in table.cases() if re.search(match, case.key)]


def header(facts: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a run is of."""
    return {
        "device": (facts or {}).get("device"),
        **results.versions(),
        "sources": source_digest()[:16],
        "torch": (facts or {}).get("torch"),
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "seconds": 0.0,
    }


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = Parser("paper", __doc__).output()
    parser.add_argument("--only", type=some_of(tables.NAMES), metavar="TABLE,...", default=tables.NAMES)
    parser.add_argument("--match", metavar="REGEX", default="", help="the cases whose keys match")
    parser.budget().workers("--jobs")
    parser.add_argument("--cache", type=Path, metavar="DIR", default=ROOT / "build/paper-cache")
    parser.add_argument("--fresh", action="store_true", help="forget what has been measured")
    parser.add_argument("--retry", action="store_true", help="measure again what ended with an error")
    parser.add_argument("--keep", action="store_true", help="what other sources gave counts as measured")
    parser.add_argument("--report", action="store_true", help="only write the report")
    return parser.list().parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run and write; see the module's docstring."""
    options = parse(argv)
    if options.list:
        for name in options.only:
            for job in jobs(name, tables.table(name), options.match):
                print(f"{name:12} {job.case.key}")
        return 0
    if options.report:
        path = options.output / "paper.jsonl"
        if not path.exists():
            raise SystemExit(f"paper: there is no {path}")
        kept = Kept(path, json.loads(path.read_text().splitlines()[0]), keep=True)
    else:
        kept = execute(options)
    versions = len({line["sources"] for line in kept.records.values()})
    total = {name: len(tables.table(name).cases()) for name in tables.NAMES}
    write(kept.header, {name: kept.of(name) for name in tables.NAMES}, total, versions, options.output)
    failed = [key for key, line in kept.records.items() if "error" in line["record"]]
    for key in failed[:20]:
        print(f"paper: {' '.join(key)}: {kept.records[key]['record']['error'][:300]}")
    left = sum(total.values()) - len(kept.records)
    print(
        f"paper: {len(kept.records)} cases, {len(failed)} with errors, {left} not run, "
        f"{kept.header['seconds']:.0f} s; {options.output / 'paper.md'}"
    )
    return int(bool(failed))
