"""First steps by the clock: what is compared with what."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench import first_step


def test_each_way_begins_with_its_own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A cold process has an empty folder of its own, a warm one that of a process of its side, a packed one
    what was unpacked."""
    ran: list[tuple[str, str, str]] = []

    def run(command: list[str], env: Any = None, **_: Any) -> Any:
        if "triton_linear.tools.cli" in command:
            ran.append(("tool", command[3], "--unpack" in command))
            return SimpleNamespace()
        side, seconds = command[4], command[-1]
        ran.append((side, Path(env["TRITON_CACHE_DIR"]).name, seconds))
        return SimpleNamespace(stdout=f"noise\n{json.dumps({'first': len(ran), 'later': 1.0})}\n")

    monkeypatch.setattr(subprocess, "run", run)
    found = first_step.measured(tmp_path, "step", 2)
    warm = str(first_step._SECONDS)
    assert [each[:2] for each in ran[:2]] == [("stock", "stock"), ("plugin", "plugin")]
    assert all(each[2] == warm for each in ran[:2])
    assert ran[2:4] == [("tool", "pack", False), ("tool", "pack", True)]
    assert {each[2] for each in ran[4:]} == {"0.0"}
    assert sorted(each[:2] for each in ran[4:]) == sorted(
        [("plugin", "packed"), ("plugin", "plugin"), ("stock", "stock")] * 2
        + [(side, f"{side} {turn}") for side in ("stock", "plugin") for turn in (0, 1)]
    )
    assert all(len(times) == 2 for times in found["seconds"].values())
