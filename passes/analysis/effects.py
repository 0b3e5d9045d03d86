"""What operations do besides giving results."""

from __future__ import annotations

import re

from triton_linear.dialect.mlir_adapter import Operation
from triton_linear.passes.operations.names import ASSEMBLY
from triton_linear.passes.operations.table import named

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
