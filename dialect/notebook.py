"""Base classes that give values the display methods of Jupyter and IPython.

`triton_linear.tools.view` draws the pictures. This package must not import it, because it is a higher layer and
needs numpy, which a layout does not. So its functions are entry points of the group
`triton_linear.notebook`, which are loaded when a notebook displays a value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

GROUP = "triton_linear.notebook"


def _view(name: str) -> Callable[..., Any] | None:
    """The drawing function `name`; None if the package is not installed."""
    from importlib.metadata import entry_points  # takes long to import

    points = tuple(entry_points(group=GROUP, name=name))
    return cast(Callable[..., Any], points[0].load()) if points else None


class Pictured:
    """A layout, which a notebook shows as a picture."""

    __slots__ = ()

    def _repr_svg_(self) -> str | None:
        """The layout as SVG; None without the views, and a notebook then shows the `repr`."""
        svg_of = _view("svg")
        return None if svg_of is None else cast("str | None", svg_of(self))


class Explained:
    """A result whose `str` explains it; a notebook shows that text, and a picture of the layout it is about.

    The layout is the value of the attribute `linear`, if the object has it and it is not None.
    """

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        """The text of `str`, and the picture of the layout below it."""
        explained = _view("explained")
        return None if explained is None else str(explained(str(self), getattr(self, "linear", None)))
