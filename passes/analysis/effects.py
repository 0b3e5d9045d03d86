"""What operations do besides giving results."""

from __future__ import annotations

from triton_linear.dialect.mlir_adapter import Operation
from triton_linear.passes.analysis import weights

COMBINES = frozenset({"tt.reduce", "tt.scan"})
"""Operations whose region combines two elements."""
_ENDS = frozenset({"tt.reduce.return", "tt.scan.return"})
_VOLATILE = "isVolatile"
_CACHE = "cache"
_UNCACHED = 7
"""The cache modifier `cv`, of loads that see what others have written (`CacheModifier` of Triton's dialect)."""
_POLICY = "cachePolicy"
_UNCACHED_POLICY = "cache_modifier = cv,"
"""The same since Triton 3.9, where one attribute has modifier and eviction."""


def is_pure(op: Operation) -> bool:
    """True if an operation is elementwise and has no side effects; external functions may have some."""
    pure = "pure" not in op.attributes or bool(op.attributes["pure"].value)
    return pure and weights.is_elementwise(op.name) and not len(op.regions)


def combines_purely(op: Operation) -> bool:
    """True if an operation of `COMBINES` has no side effects: all operations of its region are pure."""
    return all(inner.name in _ENDS or is_pure(inner.operation) for inner in op.regions[0].blocks[0].operations)


def is_volatile(load: Operation) -> bool:
    """True if a load has to see what other threads have written meanwhile, so that its place matters."""
    attributes = load.attributes
    if _VOLATILE in attributes and bool(attributes[_VOLATILE].value):
        return True
    if _CACHE in attributes:
        return int(attributes[_CACHE].value) == _UNCACHED
    return _POLICY in attributes and _UNCACHED_POLICY in str(attributes[_POLICY])
