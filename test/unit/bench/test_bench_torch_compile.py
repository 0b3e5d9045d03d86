"""The check of torch.compile notices each thing that it is there for, without a GPU."""

from __future__ import annotations

import copy
import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

BENCH = Path(__file__).resolve().parents[3] / "bench"
sys.path.append(str(BENCH))
check: Any = importlib.import_module("torch_compile_check")
process: Any = importlib.import_module("torch_compile_process")

OURS = "triton_linear-0123"
BACKEND = {False: "12.8-90", True: f"12.8-90-{OURS}"}


def record(key: str, on: bool, worker: bool) -> dict[str, Any]:
    return {
        "kernel": f"kernel {key.lower()}",
        "key": key,
        "source": "s",
        "backend": BACKEND[on],
        "options": key,
        "process": 2 if worker else 1,
    }


def phase(lane: Any, setting: str, first: bool) -> dict[str, Any]:
    """One as it should be: keys A and B are stock's, C and D ours; B and D have nothing to convert."""
    on = setting != "stock"
    in_process = on and first and lane.threads == 1
    made = {"C": "ours", "D": "same"} if on else {"A": "stock", "B": "same"}
    return {
        "setting": setting,
        "seconds": 1.5,
        "ready after": 9.0,
        "fingerprint": OURS if on else None,
        "launched": [["softmax", "C"], ["copy", "D"]] if on else [["softmax", "A"], ["copy", "B"]],
        "made": made if first else {},
        "keys": [record(key, on, lane.threads > 1) for key in made] if first else [],
        "wrong": [],
        "reports": ["1", "2"] if in_process else [],
        "ours": int(in_process),
        "graph hits": int(not first),
        "graph misses": int(first),
        "parallel": lane.threads > 1,
        "process": 1,
    }


def good() -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for lane in check.LANES:
        names = [name for names in lane.phases for name in names]
        seen: set[bool] = set()
        found[lane.name] = []
        for name in names:
            found[lane.name].append(phase(lane, name, (name != "stock") not in seen))
            seen.add(name != "stock")
    return found


def test_all_is_well() -> None:
    assert check.judge(good()) == []


FOREIGN = "1 kernels compiled under the other setting"
UNSERVED = "its cache of graphs did not serve it"


@pytest.mark.parametrize(
    ("lane", "at", "change", "failure"),
    [
        ("in process", 1, {"launched": [["softmax", "A"], ["softmax", "C"]]}, FOREIGN),
        ("workers", 2, {"launched": [["softmax", "A"], ["softmax", "D"]]}, FOREIGN),
        ("workers", 2, {"launched": [["softmax", "E"]]}, "1 kernels that no process here has compiled"),
        ("workers", 0, {"launched": []}, "no kernel was launched"),
        ("workers", 0, {"made": {"A": "ours", "B": "same"}}, "1 kernels with the other setting's code"),
        ("workers", 0, {"made": {"A": "?", "B": "same"}}, "no kernel with its own setting's code"),
        ("workers", 1, {"made": {"C": "stock", "D": "same"}}, "1 kernels with the other setting's code"),
        ("workers", 1, {"made": {"C": "same", "D": "same"}}, "no kernel with its own setting's code"),
        ("workers", 0, {"keys": [record("A", True, True)]}, "1 keys of the other setting"),
        ("workers", 1, {"keys": [record("C", False, True)]}, "1 keys of the other setting"),
        ("workers", 1, {"fingerprint": "triton_linear-4567"}, "2 keys of the other setting"),
        ("in process", 0, {"wrong": ["row sums"]}, "wrong results: row sums"),
        ("in process", 2, {"reports": ["1"]}, "the plugin compiled"),
        ("in process", 2, {"graph hits": 0}, UNSERVED),
        ("workers", 3, {"graph misses": 1}, UNSERVED),
        ("workers", 3, {"reports": ["1"]}, "0 kernels compiled again"),
        ("in process", 1, {"graph hits": 1}, "served from a cache of the other setting"),
        ("in process", 1, {"made": {}}, "served from a cache of the other setting"),
        ("in process", 1, {"ours": 0}, "the plugin reports no conversion"),
        ("workers", 1, {"parallel": False}, "workers compiled nothing"),
        ("workers", 1, {"keys": [record("C", True, False)]}, "workers compiled nothing"),
        ("toggling", 3, {"error": "Traceback\nit crashed\n"}, "toggling 4, stock: it crashed"),
        ("in process", 1, {"made": {"C": "stock", "D": "same"}}, "not apart to begin with"),
    ],
)
def test_each_fault_is_told(lane: str, at: int, change: dict[str, Any], failure: str) -> None:
    found = copy.deepcopy(good())
    found[lane][at].update(change)
    assert any(failure in text for text in check.judge(found))


def test_code_is_the_same_under_another_file_name_and_ptxas() -> None:
    text = '.version 8.7\n.loc 1 2 3 // a.py:2\n$L__tmp4:\nret;\n\t.file 1 "a.py"\n\t.section .debug\n.b8 1\n'
    other = '.version 9.0\n.loc 1 9 9 // b.py:9\n$L__tmp7:\nret;\n\t.file 1 "b.py"\n\t.section .debug\n.b8 2\n'
    assert process.code_digest(text) == process.code_digest(other)
    assert process.code_digest(text) != process.code_digest(text.replace("ret", "exit"))
