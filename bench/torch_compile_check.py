"""Checks on a GPU that torch.compile uses kernels of the setting in force, whatever is in its caches.

    python3 bench/torch_compile_check.py [--output DIR] [--dry]

Lanes run side by side, each with a cache folder of its own. In a lane, fresh processes take turns, some stock,
some with the plugin. Lanes differ in who compiles (the process, or Inductor's workers), in who launches
(Triton's launcher or Inductor's static one) and in how the plugin is turned on (the variable TRITON_LINEAR, or
a call). One lane turns it on and off in a single process: with workers that were there before, then off with
workers that were started while it was on.

A kernel is judged by what made it: by the key under which it was compiled, which has the plugin's fingerprint
or has none (see torch_compile_process.py), and by its code, which is compared with what the first lane's first
two processes compiled, one stock, one with the plugin.

One line is printed for each phase, and one for each failure; torch_compile.json in DIR has everything that
was found. The exit status is 1 unless every check passed; without PyTorch or a GPU nothing is checked. `--dry`
shows the processes.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch_compile_process import Lane, process

import triton_linear
from triton_linear.setting import FINGERPRINT

STARTUP = Path(triton_linear.__path__[0], "startup")
PATIENCE = 120.0  # Seconds after which a process whose turn it is counts as hung.
SHOWN = 20  # Failures that are printed.

LANES = (
    Lane("in process", (("stock",), ("plugin",), ("stock",))),
    Lane("Triton's launcher", (("plugin",), ("stock",), ("plugin",)), static=False, by="call"),
    Lane("workers", (("stock",), ("plugin",), ("stock",), ("plugin",)), threads=4),
    Lane("toggling", (("install", "stock", "enabled", "stock"),), threads=4, static=False, by="call"),
)


def environment(lane: Lane, setting: str, cache: str) -> dict[str, str]:
    """That of a process, with the start-up file in place, as it is after `pip install`."""
    variables = {k: v for k, v in os.environ.items() if k not in ("TRITON_LINEAR", "TRITON_CACHE_DIR")}
    variables |= {
        "TORCHINDUCTOR_CACHE_DIR": cache,
        "TORCHINDUCTOR_COMPILE_THREADS": str(lane.threads),
        "TORCHINDUCTOR_USE_STATIC_CUDA_LAUNCHER": str(int(lane.static)),
        "TORCHINDUCTOR_FX_GRAPH_CACHE": "1",
        "TORCHINDUCTOR_AUTOGRAD_CACHE": "1",
    }
    if ptxas := inductors_ptxas():
        variables.setdefault("TRITON_PTXAS_PATH", ptxas)
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, (str(STARTUP), os.environ.get("PYTHONPATH"))))
    if lane.by == "variable" and setting == "plugin":
        variables["TRITON_LINEAR"] = "1"
    return variables


def inductors_ptxas() -> str:
    """The ptxas that comes with PyTorch; empty if none does.

    Inductor has Triton use it, but says so just before it compiles. Triton's keys have the version of the
    ptxas that Triton saw first, its own or this one: in stock Triton as well, a process that generates kernels
    and compiles them itself has other keys than workers, or than one that finds the generated kernels in a
    cache. Here all processes are told at once, so that they have the same keys.
    """
    spec = importlib.util.find_spec("torch")
    folders = (spec.submodule_search_locations or ()) if spec else ()
    return next((str(path) for folder in folders if (path := Path(folder, "bin", "ptxas")).exists()), "")


def command(lane: Lane, settings: Sequence[str]) -> list[str]:
    return [sys.executable, __file__, "--process", json.dumps(asdict(lane)), ",".join(settings)]


# Running


def run_lane(lane: Lane) -> list[dict[str, Any]]:
    """The phases of all processes of a lane, in order; a process that fails ends it. All of them start at once,
    and import what they need while others have their turn.
    """
    found: list[dict[str, Any]] = []
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        contextlib.ExitStack() as stack,
    ):
        cache = Path(folder, "cache")
        cache.mkdir()
        started = [
            stack.enter_context(start(lane, settings, str(cache), Path(folder, f"errors {at}")))
            for at, settings in enumerate(lane.phases)
        ]
        for at, (settings, running) in enumerate(zip(lane.phases, started, strict=True)):
            begin = time.perf_counter()
            try:
                output, _ = running.communicate("go\n", timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                return [*found, {"setting": settings[0], "error": f"hung for {PATIENCE:.0f} s"}]
            found += [json.loads(line) for line in output.splitlines() if line.startswith('{"setting"')]
            if running.returncode != 0:
                text = Path(folder, f"errors {at}").read_text(errors="replace")[-4000:]
                return [*found, {"setting": settings[0], "error": text or f"exit {running.returncode}"}]
            if found:
                found[-1]["turn took"] = round(time.perf_counter() - begin, 1)
    return found


@contextlib.contextmanager
def start(lane: Lane, settings: Sequence[str], cache: str, errors: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that waits for its turn; none outlives the lane."""
    with errors.open("w") as file:
        running = subprocess.Popen(
            command(lane, settings), env=environment(lane, settings[0], cache), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file,
        )  # fmt: skip
    try:
        yield running
    finally:
        if running.poll() is None:
            running.kill()
            running.wait()


# Judging


def judge(found: dict[str, list[dict[str, Any]]]) -> list[str]:
    """What is not as it should be, in words."""
    failures = []
    code = codes_of_settings(found)
    if not code[False] - code[True] or not code[True] - code[False]:
        failures.append("the code of the two settings is not apart to begin with")
    for lane in LANES:
        phases = found[lane.name]
        if [entry["setting"] for entry in phases] != [name for names in lane.phases for name in names]:
            failures.append(f"{lane.name}: not every phase ran")
        for at, entry in enumerate(phases):
            where = f"{lane.name} {at + 1}, {entry['setting']}"
            if "error" in entry:
                failures.append(f"{where}: {(entry['error'].strip().splitlines() or ['no word'])[-1]}")
                continue
            failures += [f"{where}: {text}" for text in judge_phase(lane, phases[:at], entry, code)]
    return failures


def codes_of_settings(found: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[bool, set[str]]:
    """The code that stock Triton makes (False) and that the plugin makes (True)."""
    stock, ours = ({*entry.get("made", {}).values()} for entry in (*found[LANES[0].name], {}, {})[:2])
    return {False: stock, True: ours}


def judge_phase(
    lane: Lane, earlier: list[dict[str, Any]], entry: dict[str, Any], code: dict[bool, set[str]]
) -> Iterator[str]:
    """Right results; kernels of its own setting alone; caches that serve it, and only what is its own."""
    on = entry["setting"] != "stock"
    phases = [*earlier, entry]
    records = {record["key"]: record for before in phases for record in before.get("keys", ())}
    used = {key for _, key in entry["launched"]}
    if entry["wrong"]:
        yield f"wrong results: {', '.join(entry['wrong'])}"
    if not used:
        yield "no kernel was launched"
    if unknown := used - records.keys():
        yield f"{len(unknown)} kernels that no process here has compiled"
    if foreign := [key for key in used & records.keys() if not is_of(entry, records[key])]:
        yield f"{len(foreign)} kernels compiled under the other setting"
    if foreign := [record for record in entry["keys"] if not is_of(entry, record)]:
        yield f"{len(foreign)} keys of the other setting"
    kinds = kinds_of_code(phases, code)
    own, other = ("ours", "stock") if on else ("stock", "ours")
    if kinds[other]:
        yield f"{kinds[other]} kernels with the other setting's code"
    if not kinds[own]:
        yield "no kernel with its own setting's code"
    if not on and entry["reports"]:
        yield "the plugin compiled"
    if any((before["setting"] != "stock") == on for before in earlier):
        if entry["graph misses"] or not entry["graph hits"]:
            yield "its cache of graphs did not serve it"
        if entry["made"] or entry["reports"]:
            yield f"{len(entry['made'])} kernels compiled again{differences(earlier, entry)}"
    else:
        if entry["graph hits"] or not entry["made"]:
            yield "served from a cache of the other setting"
        if lane.threads > 1 and (not entry["parallel"] or not by_workers(entry)):
            yield "workers compiled nothing"
        if lane.threads == 1 and on and not entry["ours"]:
            yield "the plugin reports no conversion"


def is_of(entry: Mapping[str, Any], record: Mapping[str, Any]) -> bool:
    """Whether a kernel was compiled under the setting of a phase: the key has its fingerprint, or none."""
    backend = str(record["backend"])
    if entry["setting"] == "stock":
        return bool(backend) and FINGERPRINT not in backend
    return backend.endswith(f"-{entry['fingerprint']}")


def kinds_of_code(phases: Sequence[Mapping[str, Any]], code: Mapping[bool, set[str]]) -> dict[str, int]:
    """How many kernels launched in the last of the phases have code that only one setting makes, that both make
    ("same": nothing was converted), or that neither has made in the first lane.
    """
    kinds = {(True, False): "ours", (False, True): "stock", (True, True): "same", (False, False): "unseen"}
    made = {key: digest for entry in phases for key, digest in entry.get("made", {}).items()}
    counts = dict.fromkeys(kinds.values(), 0)
    for _, key in phases[-1]["launched"]:
        counts[kinds[made.get(key) in code[True], made.get(key) in code[False]]] += 1
    return counts


def by_workers(entry: Mapping[str, Any]) -> int:
    """How many kernels other processes were asked for in a phase."""
    return len({record["key"] for record in entry["keys"] if record["process"] != entry["process"]})


def differences(earlier: Sequence[Mapping[str, Any]], entry: Mapping[str, Any]) -> str:
    """Which parts of the keys made in a phase were in no key that the same setting made for these kernels."""
    before = [r for phase in earlier for r in phase.get("keys", ()) if is_of(entry, r)]
    parts = [
        part
        for part in ("source", "backend", "options")
        if {(r["kernel"], r[part]) for r in entry["keys"]} - {(r["kernel"], r[part]) for r in before}
    ]
    return f": new in their keys is {', '.join(parts)}" if parts else ""


def line(lane: Lane, phases: Sequence[Mapping[str, Any]], code: Mapping[bool, set[str]]) -> str:
    """What is printed of the last of the phases."""
    entry = phases[-1]
    where = f"{lane.name} {len(phases)}, {entry['setting']}"
    if "error" in entry:
        return f"{where}: failed"
    kinds = ", ".join(f"{count} {kind}" for kind, count in kinds_of_code(phases, code).items() if count)
    return (
        f"{where}: launched {len(entry['launched'])} ({kinds}); compiled {len(entry['made'])}, "
        f"{by_workers(entry)} by workers; graphs {entry['graph hits']} hit, {entry['graph misses']} missed; "
        f"{entry['seconds']} s after {entry['ready after']}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="folder for torch_compile.json")
    parser.add_argument("--dry", action="store_true", help="show the processes and start none")
    parser.add_argument("--process", nargs=2, metavar=("LANE", "SETTINGS"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.process:
        process(Lane(**json.loads(arguments.process[0])), tuple(arguments.process[1].split(",")))
        return 0
    if arguments.dry:
        for lane in LANES:
            for settings in lane.phases:
                changed = environment(lane, settings[0], "CACHE").items() - os.environ.items()
                print(" ".join(f"{k}={v}" for k, v in sorted(changed)), *command(lane, settings))
        return 0
    if reason := missing():
        print(f"skipped: {reason}")
        return 0
    begin = time.perf_counter()
    with ThreadPoolExecutor(len(LANES)) as pool:
        found = dict(zip([lane.name for lane in LANES], pool.map(run_lane, LANES), strict=True))
    failures = judge(found)
    summary = {"versions": versions(), "seconds": round(time.perf_counter() - begin, 1), "failures": failures}
    if arguments.output:
        arguments.output.mkdir(parents=True, exist_ok=True)
        text = json.dumps({**summary, "lanes": found}, indent=1)
        (arguments.output / "torch_compile.json").write_text(text + "\n")
    code = codes_of_settings(found)
    for lane in LANES:
        for at in range(len(found[lane.name])):
            print(line(lane, found[lane.name][: at + 1], code))
    print(*(text[:150] for text in failures[:SHOWN]), sep="\n", end="\n" if failures else "")
    print(f"{len(failures)} failures in {summary['seconds']} s")
    return int(bool(failures))


def missing() -> str:
    """Why nothing can be checked here; empty if it can."""
    if importlib.util.find_spec("torch") is None:
        return "PyTorch is not installed"
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "there is no CUDA driver"
    count = ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return "CUDA sees no GPU"
    return ""


def versions() -> dict[str, str]:
    from importlib.metadata import version

    return {name: version(name) for name in ("torch", "triton")} | {"triton_linear": triton_linear.__version__}


if __name__ == "__main__":
    sys.exit(main())
