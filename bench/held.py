"""What `exact` holds back, by reason, over the TTGIR of kernels. It compiles nothing to machine code.

    python -m bench.serving --compile-only --dump DIR/serving        # once, and so for bench.foreign
    python -m bench.held DIR/serving DIR/foreign

Each module goes through the passes by default and with `exact`. Where these make other modules of it, they run
again with one reason put aside at a time (docs/exact.md): a reason holds something back if the module then
is another one, and all of it if it is that of the default.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from triton_linear.dialect import bridge
from triton_linear.lowering.target import targets
from triton_linear.passes import attempts
from triton_linear.passes.options import PipelineOptions
from triton_linear.passes.reductions import held

from .harness import report, results
from .harness.options import Parser

_LOCATION = re.compile(r"loc\([^)]*\)")


def _nothing(*_: object, **__: object) -> frozenset[Any]:
    return frozenset()


def _shows_none(kept: held.KeptBits, op: Any) -> bool:
    return False


REASONS: Mapping[str, tuple[tuple[Any, str, Callable[..., Any]], ...]] = {
    "sums of two products": ((held, "_adds_two", lambda op, products: False),),
    "products on their way to a sum, sums of two included": ((held, "held_values", _nothing),),
    "the order of reductions": ((held.KeptBits, "shows_order", _shows_none),),
}
"""What is replaced to put a reason aside."""


@contextmanager
def aside(reason: str) -> Iterator[None]:
    """Put a reason aside within the block; "" for none."""
    changes = REASONS.get(reason, ())
    before = [getattr(owner, name) for owner, name, _ in changes]
    for owner, name, value in changes:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for (owner, name, _), value in zip(changes, before, strict=True):
            setattr(owner, name, value)


def made_of(text: str, *, exact: bool, target: targets.Target) -> str:
    """A digest of what the passes make of a module; that of stock Triton's kernel is "stock"."""
    module = bridge.text_to_upstream(text, bridge.upstream_context())
    options = attempts.concerning(PipelineOptions(exact=exact), module)
    prepared = attempts.prepare(module, options, target)
    attempt = next(prepared.attempts(), None) if prepared.differs else None
    if attempt is None:
        return "stock"
    return hashlib.sha256(_LOCATION.sub("", attempt.text).encode()).hexdigest()


def examined(path: Path, target: targets.Target) -> dict[str, Any]:
    """What becomes of a module: same, if `exact` changes nothing; and for each reason, what putting it aside
    does."""
    text = path.read_text()
    default, exact = (made_of(text, exact=exact, target=target) for exact in (False, True))
    found: dict[str, Any] = {"kernel": path.stem, "same": default == exact, "left": exact == "stock"}
    if default != exact:
        reasons = found["reasons"] = {}
        for reason in REASONS:
            with aside(reason):
                relaxed = made_of(text, exact=True, target=target)
            reasons[reason] = "all" if relaxed == default else "some" if relaxed != exact else "nothing"
    return found


def markdown(result: Mapping[str, Any]) -> str:
    """The page: for each set, how many modules differ and why."""
    sets = result["sets"]
    rows = []
    for name, modules in sets.items():
        others = [module for module in modules if not module["same"]]
        cells = [name, len(modules), len(others), sum(module["left"] for module in others)]
        for reason in REASONS:
            held_back = [module["reasons"][reason] for module in others]
            cells.append(f"{len(held_back) - held_back.count('nothing')} ({held_back.count('all')})")
        rows.append(cells)
    heads = [
        "set",
        "modules:",
        "other with `exact`:",
        "of these left to Triton:",
        *(f"{each}:" for each in REASONS),
    ]
    return report.page(
        "# What `exact` holds back",
        "",
        f"Modules of which the passes make another one with `exact`, and how many of these are left to Triton: "
        f"{result['target']}, Triton {result['triton']}, {result['date']}. For each reason: how many it "
        "holds something back of, and in brackets of how many it alone holds back all.",
        "",
        *report.table(" | ".join(heads), rows),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Examine all modules in the folders, and write the page."""
    parser = Parser("held", __doc__, whole=True).output().only("modules")
    parser.add_argument("folders", type=Path, nargs="+", help="folders of TTGIR")
    parser.add_argument("--target", default="cuda:90")
    options = parser.parse_args(argv)
    target = targets.target(options.target)
    result: dict[str, Any] = {**results.versions(), "target": options.target, "sets": {}}
    for folder in options.folders:
        modules = result["sets"][folder.name] = []
        for path in sorted(folder.glob("*.ttgir")):
            if re.search(options.only, path.stem):
                modules.append(examined(path, target))
        page = results.save(options.output, "held", markdown, result)
    print(page, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
