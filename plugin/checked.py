"""Launchers of kernels whose code relies on what arguments a launch has.

Two things the code of a kernel may take for granted, and its metadata says so: that integer arguments are 1
(`unit_arguments`), and that the memory of one argument is not that of another one (`Writes.passed`). Storages
are compared, not elements. Launches for which it does not hold are of stock Triton's kernel.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from triton_linear.unit_arguments import are_units

SPECIALISED: Final = "unit_arguments"
"""The metadata of a kernel whose code is for launches in which some arguments are 1: their numbers."""
DISTINCT: Final = "distinct_arguments"
"""The metadata of a kernel whose code is for launches in which the memory of some arguments is not that of
others: their numbers in the compiled function, in pairs."""
HEAD: Final = 3
"""What comes before the kernel's arguments in the `rest` of a launch: metadata and two hooks."""
Check = Callable[[Sequence[Any]], bool]
"""Tells of the `rest` of a launch whether its arguments are those that a kernel's code is for."""


def parameters(signature: Mapping[str, Any]) -> list[int] | None:
    """The number in a launch of each parameter of the compiled function; None if one stands for several there.
    signature: Triton's types of the arguments, by name.

    >>> parameters({"x": "*fp32", "N": "constexpr", "y": "*fp32"})
    [0, 2]
    >>> parameters({"pair": ("*fp32", "*fp32")})
    """
    types = list(signature.values())
    if not all(isinstance(type_, str) and "desc" not in type_ for type_ in types):
        return None
    return [number for number, type_ in enumerate(types) if type_ != "constexpr"]


def check_of(kernel: Any) -> Check | None:
    """What is to be checked before a kernel (`CompiledKernel`) is launched; None: nothing."""
    units = [HEAD + number for number in getattr(kernel.metadata, SPECIALISED, ())]
    named = getattr(kernel.metadata, DISTINCT, ())
    if not units and not named:
        return None
    numbers = parameters(kernel.src.signature)
    if numbers is None:
        return lambda rest: False
    pairs = [(HEAD + numbers[one], HEAD + numbers[other]) for one, other in named]
    return lambda rest: are_units(units, rest) and are_distinct(pairs, rest)


def are_distinct(pairs: Iterable[tuple[int, int]], arguments: Sequence[Any]) -> bool:
    """True if the storages of the arguments of each pair, by their numbers, share no byte. What is no tensor of
    PyTorch's has no storage."""
    found: dict[int, tuple[int, int]] = {}
    try:
        for pair in pairs:
            for number in pair:
                if number not in found:
                    storage = arguments[number].untyped_storage()
                    start = storage.data_ptr()
                    found[number] = start, start + storage.nbytes()
            (start, end), (other, its_end) = found[pair[0]], found[pair[1]]
            if start < its_end and other < end:
                return False
    except (AttributeError, RuntimeError):
        return False
    return True


class Checked:
    """The launcher of a kernel whose code is not for all arguments. A launch with others is one of stock
    Triton's kernel. stock: gives that kernel, None if there is none any more."""

    def __init__(self, launcher: Callable[..., Any], fits: Check, stock: Callable[[], Any]) -> None:
        self._launcher = launcher
        self._fits = fits
        self._stock = stock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._launcher, name)

    def __call__(self, x: Any, y: Any, z: Any, stream: int, function: Any, packed: Any, *rest: Any) -> Any:
        if self._fits(rest):
            return self._launcher(x, y, z, stream, function, packed, *rest)
        stock = self._stock()
        if stock is None:
            raise RuntimeError("the kernel is not for these arguments, and stock Triton's is gone")
        return stock.run(x, y, z, stream, stock.function, stock.packed_metadata, *rest)


def check_launches(kernel: Any, stock: Callable[[], Any]) -> None:
    """Have the launches of a kernel checked, if its code is not for all arguments. stock: as for `Checked`; it
    has no reference to the kernel."""
    fits = check_of(kernel)
    if fits is None:
        return
    weak: Callable[[], Any] = weakref.ref(kernel)
    load = type(kernel)._init_handles

    def loaded() -> None:
        found = weak()
        load(found)
        if not isinstance(found._run, Checked):
            found._run = Checked(found._run, fits, stock)

    kernel._init_handles = loaded
    if kernel._run is not None:
        loaded()
