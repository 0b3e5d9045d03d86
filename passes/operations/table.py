"""The one table of operations: what passes ask about them (`record.Facts`), by name.

A new operation gets a row in the file of its family. One without a row is what its dialect says in `_DIALECTS`,
else `UNKNOWN`.
"""

from __future__ import annotations

import re
from typing import Final

from triton_linear.dialect.mlir_adapter import Operation
from triton_linear.passes.operations import arithmetic, control
from triton_linear.passes.operations.arithmetic import ARITHMETIC
from triton_linear.passes.operations.chip_memory import CHIP_MEMORY
from triton_linear.passes.operations.control import CONTROL
from triton_linear.passes.operations.global_memory import GLOBAL_MEMORY
from triton_linear.passes.operations.names import ASSEMBLY
from triton_linear.passes.operations.record import UNKNOWN, Facts, Family
from triton_linear.passes.operations.reductions import REDUCTIONS
from triton_linear.passes.operations.views import VIEWS

_DIALECTS: Final[Family] = {
    "arith": arithmetic.FLOATS,
    "math": arithmetic.MATH,
    "scf": control.LOOPS_AND_BRANCHES,
    "cf": control.JUMPS,
    "ub": control.JUMPS,
    "ttg": Facts(decides_by_floats=False, fills=True),
}

_REORDERS: Final = ("allow_reorder", "efficient_layout")


class _Table(dict[str, Facts]):
    def __missing__(self, name: str) -> Facts:
        found = self[name] = _DIALECTS.get(name.partition(".")[0], UNKNOWN)
        return found


_TABLE: Final = _Table(ARITHMETIC | VIEWS | REDUCTIONS | GLOBAL_MEMORY | CHIP_MEMORY | CONTROL)


def named(name: str) -> Facts:
    """The facts of the operation called `name`.

    >>> named("arith.addi").associative, named("arith.minsi").divides, named("tt.unheard_of").writes
    (True, False, True)
    """
    return _TABLE[name]


def may_reorder(op: Operation) -> bool:
    """True if a reshape may give its elements another order."""
    return any(name in op.attributes for name in _REORDERS)


def facts(op: Operation) -> Facts:
    """The facts of an operation."""
    return _TABLE[op.name]


_VOLATILE = "isVolatile"
_CACHE = "cache"
_UNCACHED = 7
"""The cache modifier `cv`, of loads that see what others have written (`CacheModifier` of Triton's dialect)."""
_POLICY = "cachePolicy"
_UNCACHED_POLICY = re.compile(r"cache_modifier = cv\b")
"""The same since Triton 3.9, where one attribute, of which there are several, has modifier and eviction."""
_PURE = "pure"


def is_pure(op: Operation) -> bool:
    """True if an operation is elementwise and has no side effects; external functions may have some."""
    pure = _PURE not in op.attributes or bool(op.attributes[_PURE].value)
    return pure and named(op.name).elementwise and not len(op.regions)


def is_impure_code(op: Operation) -> bool:
    """True if an operation runs code of the user that may do anything."""
    return _PURE in op.attributes and not bool(op.attributes[_PURE].value)


def computes(op: Operation) -> bool:
    """True if an operation does nothing but compute its results, element by element."""
    return is_pure(op) or (op.name == ASSEMBLY and not is_impure_code(op))


def is_volatile(access: Operation) -> bool:
    """True if an access has to see what other threads have written meanwhile, so that its place matters."""
    attributes = access.attributes
    if _VOLATILE in attributes and bool(attributes[_VOLATILE].value):
        return True
    if _CACHE in attributes:
        return int(attributes[_CACHE].value) == _UNCACHED
    return _POLICY in attributes and _UNCACHED_POLICY.search(str(attributes[_POLICY])) is not None
