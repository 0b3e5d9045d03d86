"""How values look in a notebook: what Jupyter and IPython ask an object for, as classes to derive from.

The pictures are those of `triton_linear.tools.view`, which stands above this package in the order of imports
and needs numpy and matplotlib; a layout needs neither. So the methods import it only when a notebook calls
them, and nothing is loaded or registered before. No other module imports against the order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from .linear_layout import LinearLayout


class Pictured:
    """A layout, which a notebook shows as a picture."""

    __slots__ = ()

    def _repr_svg_(self) -> str | None:
        """The layout as SVG; None, upon which a notebook shows the `repr`, without matplotlib."""
        from triton_linear.tools.view.notebook import svg_of

        return svg_of(cast("LinearLayout", self))


class Explained:
    """A result that explains itself when printed; a notebook shows that text, and the layout it is about.

    The layout is what the attribute `linear` holds, if there is one and it holds one.
    """

    __slots__ = ()

    def _repr_html_(self) -> str:
        """The text of `print`, and the picture of the layout below it."""
        from triton_linear.tools.view.notebook import explained

        return explained(str(self), getattr(self, "linear", None))
