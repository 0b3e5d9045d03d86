"""What proofs of rewrites raise."""

from __future__ import annotations


class NotEquivalent(Exception):
    """The rewritten module may compute other results than before, or have hints that are wrong."""
