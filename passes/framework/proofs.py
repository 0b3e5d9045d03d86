"""What proofs of rewrites raise."""

from __future__ import annotations


class NotProved(Exception):
    """The module may compute something else than before, or promise what is not so."""
