"""Docstrings as Markdown: their examples and drawings become blocks of code."""

from __future__ import annotations

import re
from typing import Any

import griffe

_CODE = re.compile(r"(```.*?^ *```|``.*?``|`[^`\n]*`)", re.DOTALL | re.MULTILINE)
_EXAMPLE = re.compile(r"^(?P<indent> *)>>> .*?(?=\n\s*\n|\Z)", re.DOTALL | re.MULTILINE)


def as_markdown(text: str) -> str:
    """The text with a fence around each example of an interpreter's session; indices are no links.

    Blocks that are indented are code to Markdown as well.
    """
    parts = _CODE.split(_EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", text))
    parts[::2] = [part.replace("][", "]\\[") for part in parts[::2]]
    return "".join(parts)


class Examples(griffe.Extension):
    """Fences the examples of every docstring that is read."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called for each module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
