"""The launches of a program, from the records of the children that measured them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from triton_linear.decisions import Circumstances
from triton_linear.tools.measuring import choose
from triton_linear.tools.measuring.choose import Interval
from triton_linear.tools.measuring.contest import CONTEST
from triton_linear.variants import STOCK

EVEN = Interval(1.0, 1.0, 1.0)


@dataclass
class Contested:
    """A kernel on one grid: the number of launches, the record of the comparison of its variants (None if
    there is none), by mode why variants were left out, and the digest of its TTGIR.
    """

    key: str
    name: str
    grid: tuple[int, ...]
    launches: int = 1
    contest: Mapping[str, Any] | None = None
    problems: dict[str, str] = field(default_factory=dict)
    module: str = ""

    @property
    def microseconds(self) -> float:
        """The time of all its launches in stock Triton."""
        return self.launches * float(self.contest["microseconds"]) if self.contest else 0.0

    @property
    def circumstances(self) -> Circumstances:
        """The circumstances for which a decision about it is valid. Requires: `contest` is not None."""
        assert self.contest is not None
        record = self.contest
        gpu = record["gpu"] if record["target"].startswith("cuda") else ""
        return Circumstances(
            record["digest"], gpu, record["target"], record["triton"], record["ptxas"], record["package"]
        )

    @property
    def verdict(self) -> str:
        """The best variant for this launch alone. Requires: `contest` is not None."""
        assert self.contest is not None
        return choose.decide(self.contest["second"], self.contest["best"])

    def ratio(self, name: str) -> Interval | None:
        """How many times faster a variant is than stock Triton, from the last phase of all, or the first that
        it was in; None if it was in none. Requires: `contest` is not None.
        """
        assert self.contest is not None
        name = self.contest["alike"].get(name, name)
        if name == STOCK:
            return EVEN
        if name in self.contest["second"][0]:
            return choose.faster(STOCK, name, self.contest["second"])
        first = self.contest["first"].get(name)
        return None if first is None else Interval(**first)


def contested(records: Iterable[Mapping[str, Any]]) -> list[Contested]:
    """The launches in records, in their order."""
    launches: dict[str, Contested] = {}
    for record in records:
        if "launches" in record:
            for key, count in record["launches"].items():
                if key in launches:
                    launches[key].launches = max(launches[key].launches, count)
            continue
        key = record["kernel"]
        if "name" in record:
            new = Contested(key, record["name"], tuple(record["grid"]), module=record.get("module", ""))
            launches.setdefault(key, new)
        elif "problem" in record:
            launches[key].problems.setdefault(record["mode"], record["problem"])
        elif record.get("mode") == CONTEST:
            launches[key].contest = record
    return list(launches.values())
