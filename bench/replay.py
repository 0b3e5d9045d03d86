"""What the passes make of many modules: whether two versions of this package make the same of all.

    python -m bench.replay DIR... --write FILE        # before a change
    python -m bench.replay DIR... --against FILE      # after it: exit status 1 if a module becomes another one

Modules are TTGIR files, each for the GPU that it names: those of test/data, and what `--dump` of bench.foreign
and bench.serving writes for the targets they are compiled for. Each goes through the passes by default and with
`exact`. What is compared is the text that goes to Triton's backend, emitted code included, without locations,
so it stands for PTX and AMDGCN; where it differs, the clocks of the assignment of layouts say how the model
prices both. The page counts the modules that each pass changed: what never decides may go.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from triton_linear.dialect import bridge, ll
from triton_linear.dialect.mlir_adapter import Operation
from triton_linear.lowering.target import targets
from triton_linear.passes import attempts
from triton_linear.passes.framework.run import run_passes
from triton_linear.passes.options import PipelineOptions
from triton_linear.passes.pipeline import pipeline as passes_of

from .harness import results
from .harness.options import Parser

_LOCATION = re.compile(r"loc\([^\n]*\)$|^#loc.*$", re.MULTILINE)
_TARGET = re.compile(r'ttg\.target"? = "([^"]+)"')
STOCK = "stock"
"""What stands for code that is Triton's alone."""


def digest(text: str) -> str:
    """What texts have in common that differ in locations alone."""
    return hashlib.sha256(_LOCATION.sub("", text).encode()).hexdigest()[:16]


def name_of(text: str, path: Path) -> str:
    """What names a module, wherever its file lies."""
    return f"{path.stem} {digest(text)}"


def examined(path: Path) -> tuple[str, dict[str, Any]]:
    """What becomes of a module: the digest and the modelled clocks by default and with `exact`, and the passes
    that change it. A module that the passes cannot take has the reason instead."""
    text = path.read_text(encoding="utf-8")
    found: dict[str, Any] = {"passes": []}
    try:
        target = targets.target(_TARGET.findall(text)[0])
        for exact in (False, True):
            found["exact" if exact else "default"] = _made(text, target, PipelineOptions(exact=exact))
        found["passes"] = _changing(text, target)
    except Exception as error:  # it is compared too
        found["error"] = f"{type(error).__name__}: {error}"[:200]
    return name_of(text, path), found


def _made(text: str, target: targets.Target, asked: PipelineOptions) -> dict[str, Any]:
    module = bridge.text_to_upstream(text, bridge.upstream_context())
    prepared = attempts.prepare(module, attempts.concerning(asked, module), target)
    attributes = module.operation.attributes
    clocks = [round(each.value, 1) for each in attributes[ll.ASSIGNED]] if ll.ASSIGNED in attributes else []
    code = digest(next(prepared.attempts()).text) if prepared.differs else STOCK
    return {"code": code, "clocks": clocks}


def _changing(text: str, target: targets.Target) -> list[str]:
    """The passes that change a module, by default."""
    module = bridge.text_to_upstream(text, bridge.upstream_context())
    options = attempts.concerning(PipelineOptions(), module)
    if options is None:
        return []
    seen: list[str] = []
    before = ""

    def watch(name: str, has_run: bool, op: Operation) -> None:
        nonlocal before
        now = digest(str(op))
        if has_run and now != before:
            seen.append(name)
        before = now

    run_passes(module, passes_of(options, target.spelled), remarks=False, watch=watch)
    return seen


def files_in(paths: Sequence[Path]) -> list[Path]:
    """The modules in folders, and files, in a fixed order; none of test/data/stock, on which Triton may end."""
    found = [each for path in paths for each in (sorted(path.rglob("*.ttgir")) if path.is_dir() else [path])]
    return [each for each in found if each.parent.name != "stock"]


def record(paths: Sequence[Path], workers: int) -> dict[str, Any]:
    """What becomes of each module, by its name."""
    with ProcessPoolExecutor(workers) as pool:
        return dict(pool.map(examined, files_in(paths), chunksize=4))


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """A line for each module in both that becomes another one, and one for those that are in one alone."""
    lines = []
    for name in sorted(before.keys() & after.keys()):
        for way in ("default", "exact", "error"):
            one, other = before[name].get(way), after[name].get(way)
            if isinstance(one, dict) and isinstance(other, dict):
                if one["code"] == other["code"]:
                    continue
                clocks = f"; clocks {one['clocks']} and {other['clocks']}" if one != other else ""
                lines.append(f"{name}: {way}: {one['code']} and {other['code']}{clocks}")
            elif one != other:
                lines.append(f"{name}: {way}: {one} and {other}")
    if alone := before.keys() ^ after.keys():
        lines.append(f"{len(alone)} modules are in one of both alone, as {min(alone)}")
    return lines


def hits(found: Mapping[str, Any]) -> Counter[str]:
    """How many modules each pass changes."""
    return Counter(name for each in found.values() for name in each["passes"])


def main(argv: Sequence[str] | None = None) -> int:
    """Record, or compare; the exit status is 1 if a module becomes another one."""
    parser = Parser("replay", __doc__, whole=True).modules("+").workers()
    parser.add_argument("--write", type=Path, metavar="FILE", help="write what becomes of each module")
    parser.add_argument("--against", type=Path, metavar="FILE", help="compare with what was written")
    options = parser.parse_args(argv)
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    found = record(options.paths, options.workers)
    print(f"{len(found)} modules; " + ", ".join(f"{name} {count}" for name, count in hits(found).most_common()))
    if options.write is not None:
        text = json.dumps({**results.versions(), "modules": found}, indent=0)
        options.write.parent.mkdir(parents=True, exist_ok=True)
        results.replaced(options.write, text + "\n")
    if options.against is None:
        return 0
    lines = differences(json.loads(options.against.read_text())["modules"], found)
    print("\n".join([*lines, f"{len(lines)} differences"]))
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
