"""How values look in a notebook: what Jupyter and IPython ask an object for, as classes to derive from.

The pictures are those of `triton_linear.tools.view`, which stands above this package in the order of imports
and needs numpy and matplotlib; a layout needs neither. So the package's metadata names them, as entry points of
the group `triton_linear.notebook`, and they are loaded when a notebook asks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

GROUP = "triton_linear.notebook"


def _view(name: str) -> Callable[..., Any] | None:
    """What draws `name`; None where the package is not installed."""
    from importlib.metadata import entry_points  # which takes long to import

    found = tuple(entry_points(group=GROUP, name=name))
    return cast(Callable[..., Any], found[0].load()) if found else None


class Pictured:
    """A layout, which a notebook shows as a picture."""

    __slots__ = ()

    def _repr_svg_(self) -> str | None:
        """The layout as SVG; None, upon which a notebook shows the `repr`, without matplotlib."""
        svg_of = _view("svg")
        return None if svg_of is None else cast("str | None", svg_of(self))


class Explained:
    """A result that explains itself when printed; a notebook shows that text, and the layout it is about.

    The layout is what the attribute `linear` holds, if there is one and it holds one.
    """

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        """The text of `print`, and the picture of the layout below it."""
        explained = _view("explained")
        return None if explained is None else str(explained(str(self), getattr(self, "linear", None)))
