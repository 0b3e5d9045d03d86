"""What proofs of rewrites raise."""

from __future__ import annotations


class NotProved(Exception):
    """A rewritten module may compute other results than before, or have hints that are wrong."""
