"""All mistakes that tests are to catch (`code_mutants_base.py` says what one is)."""

from __future__ import annotations

from code_mutants_barriers import MUTANTS as BARRIERS
from code_mutants_base import CodeMutant
from code_mutants_clusters import MUTANTS as CLUSTERS
from code_mutants_emission import MUTANTS as EMISSION
from code_mutants_gathers import MUTANTS as GATHERS
from code_mutants_loads import MUTANTS as LOADS
from code_mutants_machines import MUTANTS as MACHINES
from code_mutants_plans import MUTANTS as PLANS
from code_mutants_plugin import MUTANTS as PLUGIN
from code_mutants_rewrites import MUTANTS as REWRITES

MUTANTS: tuple[CodeMutant, ...] = (
    *PLANS,
    *EMISSION,
    *MACHINES,
    *CLUSTERS,
    *GATHERS,
    *REWRITES,
    *BARRIERS,
    *LOADS,
    *PLUGIN,
)
