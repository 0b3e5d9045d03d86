"""A toolbox for authors of Gluon kernels: it computes the cost of layouts, and suggests good ones.

    from triton_linear import gluon as tl_gluon

    shared = tl_gluon.suggest_shared_layout([load_layout], [use_layout], (128, 64), "f16")
    print(shared)            # why, with the wavefronts of every access
    shared.layout            # gl.SharedLinearLayout, for gl.allocate_shared_memory

Layouts are Gluon's objects, or `LinearLayout`s. Each result prints an explanation. Nothing here needs a GPU or
changes how kernels are compiled.
"""

from __future__ import annotations

from triton_linear.dialect.gluon import distributed_layout, encoding_text, linear_layout, shared_layout
from triton_linear.gluon.conversions import Bridge, ConversionCost, best_bridge, conversion_cost
from triton_linear.gluon.cute import from_cute, to_cute
from triton_linear.gluon.loads import LoadSuggestion, suggest_load_layout
from triton_linear.gluon.memory import BankReport, SharedSuggestion, bank_conflicts, suggest_shared_layout

__all__ = [
    "BankReport",
    "Bridge",
    "ConversionCost",
    "LoadSuggestion",
    "SharedSuggestion",
    "bank_conflicts",
    "best_bridge",
    "conversion_cost",
    "distributed_layout",
    "encoding_text",
    "from_cute",
    "linear_layout",
    "shared_layout",
    "suggest_load_layout",
    "suggest_shared_layout",
    "to_cute",
]
