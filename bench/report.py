"""What the measurements of compile time write: their figures as JSON, and the same as a table."""

from __future__ import annotations

import datetime
import json
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import triton


def publish(folder: Path, stem: str, markdown: Callable[[dict[str, Any]], str], **figures: Any) -> None:
    """Write figures, with the date and the versions they are of, to `stem`.json and .md; print the table."""
    result = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "triton": triton.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        **figures,
    }
    print(save(folder, stem, markdown, result), end="")


def save(
    folder: Path, stem: str, markdown: Callable[[dict[str, Any]], str], result: dict[str, Any], indent: int = 2
) -> str:
    """Write a result to `stem`.json, and as the table that is returned to `stem`.md."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{stem}.json").write_text(json.dumps(result, indent=indent) + "\n")
    table = markdown(result)
    (folder / f"{stem}.md").write_text(table)
    return table
