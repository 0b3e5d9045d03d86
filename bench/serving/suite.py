"""The bench of servers' operators."""

from __future__ import annotations

from ..foreign.suite import Suite
from .cases import cases
from .inputs import Inputs
from .packages import PACKAGES
from .standins import enter

SERVING = Suite("serving", "Operators of servers", PACKAGES, enter, cases, Inputs)
