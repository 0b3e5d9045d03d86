"""The files of a run: figures as JSON, and the same as a page of markdown.

Every result names the date and the versions it is of. It is written again after every case, each file replaced
at once, so that a run that is stopped leaves what it had.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from triton_linear.dialect import triton_versions

RESULTS = Path(__file__).parents[1] / "results"
"""What belongs to no release of Triton; of each release there is a folder in it."""
Markdown = Callable[[Any], str]


def of_release() -> Path:
    """The folder of the Triton that is installed."""
    return RESULTS / (triton_versions.found() or "none")


def today() -> str:
    """The date, in UTC."""
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")


def versions() -> dict[str, str]:
    """The date, and what compiles."""
    import triton

    import triton_linear

    return {"date": today(), "triton": triton.__version__, "triton_linear": triton_linear.__version__}


def machine() -> dict[str, str]:
    """What times of a CPU are of."""
    return {
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }


def replaced(path: Path, text: str) -> None:
    """Write a file, at once."""
    part = path.with_suffix(f"{path.suffix}.part")
    part.write_text(text)
    part.replace(path)


def save(folder: Path, stem: str, markdown: Markdown, result: Mapping[str, Any], indent: int | None = 1) -> str:
    """Write a result to `stem`.json, and as the page that is returned to `stem`.md."""
    folder.mkdir(parents=True, exist_ok=True)
    replaced(folder / f"{stem}.json", json.dumps(result, indent=indent) + "\n")
    page = markdown(result)
    replaced(folder / f"{stem}.md", page)
    return page


def publish(folder: Path, stem: str, markdown: Markdown, **figures: Any) -> None:
    """Save figures with the date, the versions and the machine they are of, and print the page."""
    print(save(folder, stem, markdown, {**versions(), **machine(), **figures}, indent=2), end="")


def join(
    program: str, paths: Sequence[Path], same: Sequence[str], key: Callable[[Mapping[str, Any]], Any]
) -> dict[str, Any]:
    """One report of several; of cases with the same `key`, the later one counts. Raises SystemExit unless the
    reports agree in what is to be the `same`."""
    reports = [json.loads(path.read_text()) for path in paths]
    joined = dict(reports[0])
    for report in reports[1:]:
        for name in same:
            if report.get(name) != joined.get(name):
                here, there = report.get(name), joined.get(name)
                raise SystemExit(f"{program}: {name} is {here} in one report and {there} in another")
    records = {key(record): record for report in reports for record in report["cases"]}
    joined["cases"] = list(records.values())
    done = {part for found in records for part in (found if isinstance(found, tuple) else (found,))}
    left = dict.fromkeys(name for report in reports for name in report["not_run"])
    joined["not_run"] = [name for name in left if name not in done]
    joined["seconds"] = round(sum(report["seconds"] for report in reports), 1)
    joined["date"] = max(report["date"] for report in reports)
    return joined
