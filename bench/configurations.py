"""Every configuration that Inductor tries for a kernel, with stock Triton, the plugin and free conversions.

    python -m bench.configurations [--output DIR] [--only REGEX] [--turns N] [--budget SECONDS]
                                   [--also "[CASE:] XBLOCK=128 warps=2 stages=1"]

The cases are those of `bench.kernels` for `torch.compile`, without --only the first few. Of a function that
becomes several kernels one kernel at a time is configured otherwise, the others as Inductor chooses with stock
Triton; times are of the whole function. --also adds a configuration to the kernels whose sizes have its names,
of the case named or of all. Writes configurations.json and configurations.md after every case; the exit status
is 1 if a result of the plugin's is wrong, or it fails or falls back where stock Triton does not.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .configurations_report import COMPARED, at_fault, markdown
from .harness import results
from .harness.cases import Run, chosen, say
from .harness.child import Child, Failed
from .harness.options import Parser
from .harness.turns import summary
from .kernels import alternatives, cases, inductor, measure, run
from .kernels.alternatives import Place
from .kernels.case import TORCH, Case
from .kernels.measure import Effort

Also = tuple[str, str]  # A case, or "" for all, and a configuration.


def also(text: str) -> Also:
    """What --also says.

    >>> also("row_sum_small: XBLOCK=8 warps=2 stages=1")
    ('row_sum_small', 'XBLOCK=8 warps=2 stages=1')
    """
    case, colon, name = text.rpartition(":")
    try:
        inductor.parse_config(name)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if colon and not any(case.strip() == known.name for known in cases.cases() if known.kind == TORCH):
        raise argparse.ArgumentTypeError(f"there is no case '{case.strip()}' for torch.compile")
    return case.strip(), " ".join(name.split())


def extended(kernel: Mapping[str, Any], case: str, added: Iterable[Also]) -> list[str]:
    """The configurations of a kernel, then those added to it: whose sizes have the names of its own."""
    names = list(kernel["configs"])
    fit = [spelt(name, names[0]) for of, name in added if of in ("", case)]
    return list(dict.fromkeys([*names, *(name for name in fit if name is not None)]))


def spelt(name: str, like: str) -> str | None:
    """A configuration with its sizes in the order of another's; None where they have other names."""
    parts = {part.partition("=")[0]: part for part in name.split()}
    order = [part.partition("=")[0] for part in like.split()]
    return " ".join(parts[key] for key in order) if parts.keys() == set(order) else None


def unfit(records: Iterable[Mapping[str, Any]], added: Iterable[Also]) -> list[str]:
    """What was to be added, and is of no kernel."""
    known = [(r["name"], e["config"]) for r in records for k in r["kernels"] for e in k["configs"]]
    return [
        f"{case}: {name}" if case else name
        for case, name in added
        if not any(case in ("", of) and spelt(name, config) == config for of, config in known)
    ]


def answers(ask: Callable[[Sequence[Place]], list[dict[str, Any]]], places: Sequence[Place]) -> list[Any]:
    """What `ask` says of each place; where it raises, of each half, down to the place that is at fault."""
    try:
        return ask(places)
    except Exception as error:
        if len(places) == 1:
            return [{"error": Failed.of(error).error}]
        half = len(places) // 2
        return answers(ask, places[:half]) + answers(ask, places[half:])


def measured(case: Case, effort: Effort, added: Sequence[Also], ask: Callable[..., Any]) -> dict[str, Any]:
    """The record of a case: of each of its kernels, every configuration in every mode."""
    record: dict[str, Any] = {"name": case.name, "kernels": []}
    try:
        kernels = ask(alternatives.kernels, case.name, effort)
    except Exception as error:
        return record | {"error": Failed.of(error).error}
    taken = [kernel["chosen"] for kernel in kernels]
    for kernel in kernels:
        entries = [
            {"config": name, "chosen": name == kernel["chosen"], "added": name not in kernel["configs"]}
            for name in extended(kernel, case.name, added)
        ]
        record["kernels"].append({"name": kernel["name"], "configs": entries})
    places = [(k, e["config"]) for k, kernel in enumerate(record["kernels"]) for e in kernel["configs"]]
    entries = [entry for kernel in record["kernels"] for entry in kernel["configs"]]
    for mode in COMPARED:

        def asked(some: Sequence[Place], mode: str = mode) -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = ask(alternatives.run, case.name, mode, some, taken, effort)
            return found

        for entry, answer in zip(entries, answers(asked, places), strict=True):
            entry[mode] = answer | {"summary": summary(answer.get("times", {}), 1)}
    return record


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options."""
    parser = Parser("configurations", __doc__).output(Path("build/bench"))
    parser.only("cases, of all for torch.compile,", None).turns(11).budget()
    parser.add_argument("--also", type=also, action="append", default=[], metavar="CONFIGURATION")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Run and write; see the module's docstring."""
    options = parse(argv)
    only = options.only if options.only is not None else f"^({'|'.join(cases.FIRST)})$"
    every = [case for case in cases.cases() if case.kind == TORCH]
    wanted = chosen("configurations", every, only)
    effort, child = Effort(options.turns, 0), Child(measure.start)

    def save(report: Mapping[str, Any]) -> None:
        results.save(options.output, "configurations", markdown, report)

    configured = Run(save, options.budget)
    try:
        configured.heading({**run.heading(child.begin("configurations")), "turns": options.turns, "unfit": []})
        for case in configured.each(wanted):
            configured.add(measured(case, effort, options.also, child.ask), case.name)
    finally:
        child.close()
    report = configured.report
    report["unfit"] = unfit(report["cases"], options.also)
    save(report)
    print(markdown(report), end="")
    kernels = [kernel for record in report["cases"] for kernel in record["kernels"]]
    faults = sum(at_fault(entry) for kernel in kernels for entry in kernel["configs"])
    failed = sum("error" in record for record in report["cases"])
    say(f"configurations: {failed} cases failed, {faults} configurations of ours")
    return int(bool(failed or faults))


if __name__ == "__main__":
    sys.exit(main())
