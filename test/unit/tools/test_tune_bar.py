"""How far `triton-linear tune` is, on a terminal and elsewhere."""

from __future__ import annotations

import functools
import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tune_support import PLAYED, Play, play, script

from triton_linear.tools.tune import bar, command
from triton_linear.tools.tune.bar import Bar

__all__ = ["play", "script"]
HERE: dict[str, Any] = {"kernel": "k"}
SEEN = {**HERE, "name": "softmax", "grid": [1, 1, 1], "warps": 4}
ENDED = {**HERE, "mode": "contest", "ratio": 1.0}


class Terminal(io.StringIO):
    """What was written to a terminal, or to a file that is none."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, is_one: bool = True) -> None:
        super().__init__()
        made = functools.partial(Console, file=self, force_terminal=is_one, width=100, color_system=None)
        monkeypatch.setattr(bar, "Console", lambda stderr: made())

    def written(self) -> str:
        """What is new."""
        text = self.getvalue()
        self.seek(0)
        self.truncate()
        return text


def test_the_bar_is_that_of_the_launch_that_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    there = Terminal(monkeypatch)
    made = Bar(3)
    made.follow([SEEN], shown=True)
    assert made._bar is None
    steps = []
    for record, at in (
        ({"begin": "compiling:ours"}, "compiling ours"),
        ({"compiled": "lower"}, "compiling lower"),
        ({"begin": "stock"}, "running stock"),
        ({"begin": "ours"}, "running ours"),
        ({"begin": "timing"}, "timing"),
    ):
        made.follow([{**HERE, **record}], shown=True)
        assert made._bar is not None
        made._bar.refresh()
        text = there.written()
        assert "softmax" in text and at in text and "launches: 1 seen, 0 measured" in text
        steps.append(made._bar.tasks[0].completed)
    assert steps == [1, 2, 3, 4, 5] and made._bar is not None and made._bar.tasks[0].total == 6
    made.say("a line [above]")
    assert "a line [above]" in there.written()
    made.follow([ENDED], shown=True)
    assert made._bar is None  # type: ignore[unreachable]
    made.follow([{**SEEN, "kernel": "l"}, {"kernel": "l", "begin": "stock"}], shown=True)
    made._bar.refresh()
    assert "launches: 2 seen, 1 measured" in there.written()
    made.hide()


def test_what_others_measure_is_counted_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    there = Terminal(monkeypatch)
    made = Bar(3)
    other = {**SEEN, "kernel": "other"}
    made.follow([other, {"kernel": "other", "begin": "timing"}], shown=False)
    assert made._bar is None and there.written() == ""
    made.follow([SEEN, {**HERE, "begin": "timing"}], shown=True)
    made.hide()
    assert "launches: 2 seen" in there.written()


@pytest.mark.parametrize("is_one", [True, False])
def test_a_run_shows_it_on_a_terminal(
    is_one: bool, play: Play, script: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    there = Terminal(monkeypatch, is_one)
    waits = "    record(kernel=key, begin='timing')\n    time.sleep(0.5)\n"
    play.script.write_text(PLAYED.replace("    time.sleep(lasts)\n", waits))
    play.speeds = {"matmul-1": {"stock": 1.0, "ours": 1.25}}
    command.tune(script, decisions=tmp_path / "decisions.sqlite", variants=["ours"])
    text = there.written()
    assert ("matmul" in text and "timing" in text and "launches: 1 seen, 0 measured" in text) == is_one
    assert bool(text) == is_one
