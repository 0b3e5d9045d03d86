"""From what the two processes of a case say to its record: times, ratios and configurations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..harness.statistics import interval, ratio
from .tuners import EQUAL, FREE, STOCK

Facts = Mapping[str, Any]
Measured = Mapping[str, Sequence[Facts]]
"""By way, what `process.measure` gave in each round."""


def record(stock: Facts, plugin: Facts, adopted: Mapping[str, Facts], measured: Measured) -> dict[str, Any]:
    """Times of whole steps, of Inductor's kernels together and of each of them, in microseconds.

    stock, plugin: what `process.prepare` gave. adopted: what `Tuners.adopt` did. Where it did nothing EQUAL was
    not measured, for it is FREE.
    """
    measured = {EQUAL: measured[FREE], **measured}
    sides = {STOCK: stock["kernels"], FREE: plugin["kernels"], EQUAL: plugin["kernels"]}
    found: dict[str, Any] = {
        "rounds": len(measured[STOCK]),
        "kernels": kernels(stock["kernels"], plugin["kernels"], adopted, measured),
        "unmatched": {
            STOCK: [one["name"] for one in stock["kernels"] if one["key"] not in _keys(plugin)],
            FREE: [one["name"] for one in plugin["kernels"] if one["key"] not in _keys(stock)],
        },
        "others": measured[STOCK][-1]["others"],
    }
    for name, value in (("step", _step), ("triton", _triton), ("rest", _rest)):
        times = {way: [value(one) for one in measured[way]] for way in sides}
        found[name] = summary(times)
    return found


def _keys(side: Facts) -> set[str]:
    return {one["key"] for one in side["kernels"]}


def _triton(one: Facts) -> float:
    return float(sum(one["kernels"]))


def _rest(one: Facts) -> float:
    return float(one["rest"])


def _step(one: Facts) -> float:
    return _triton(one) + _rest(one)


def summary(times: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Medians of every way, and stock's time over that of FREE and of EQUAL as [low, median, high].

    >>> summary({"stock": [4.0, 4.0], "free": [2.0, 2.0], "equal": [4.0, 4.0]})["ratio"]
    {'free': [2.0, 2.0, 2.0], 'equal': [1.0, 1.0, 1.0]}
    """
    ratios = {way: ratio(times[STOCK], times[way]) for way in (FREE, EQUAL) if all(times[way])}
    return {
        "microseconds": {way: round(interval(values)[1], 3) for way, values in times.items()},
        "ratio": ratios,
    }


def kernels(
    stock: Sequence[Facts], plugin: Sequence[Facts], adopted: Mapping[str, Facts], measured: Measured
) -> list[dict[str, Any]]:
    """A row for each kernel that both processes launch, the longest first."""
    places = {one["key"]: number for number, one in enumerate(stock)}
    rows = []
    for number, one in enumerate(plugin):
        if one["key"] not in places:
            continue
        place = places[one["key"]]
        other, taken = stock[place], adopted.get(one["key"], {})
        at = {STOCK: place, FREE: number, EQUAL: number}
        equal = one if "error" in taken else {**one, **taken}
        row = {name: other[name] for name in ("name", "key", "launches")}
        row["configs"] = {STOCK: other["config"], FREE: one["config"], EQUAL: equal["config"]}
        row["tried"] = {STOCK: other["tried"], FREE: one["tried"]}
        row["same_code"] = {way: same_code(other, made) for way, made in ((FREE, one), (EQUAL, equal))}
        row["facts"] = {
            way: [made["registers"], made["spilled"], made["shared"]]
            for way, made in ((STOCK, other), (FREE, one), (EQUAL, equal))
        }
        if "error" in taken:
            row["error"] = taken["error"]
        row |= summary({way: [each["kernels"][at[way]] for each in measured[way]] for way in at})
        rows.append(row)
    return sorted(rows, key=lambda row: -row["microseconds"][STOCK])


def same_code(stock: Facts, other: Facts) -> bool | None:
    """Whether two kernels are one: the plugin left it as it is. None: it is not known."""
    if stock["code"] is None or other["code"] is None:
        return None
    return all(stock[name] == other[name] for name in ("config", "code", "registers", "spilled", "shared"))
