"""Mistakes in what lets loads begin earlier: before exchanges, and an iteration ahead."""

from __future__ import annotations

from code_mutants_base import CodeMutant, rewritten

AHEAD = "test/unit/passes/test_load_ahead.py"
EARLY = "test/unit/passes/test_load_early.py"

MUTANTS: tuple[CodeMutant, ...] = (
    rewritten(
        "scheduling/exchanges",
        "lets_pass",
        "not is_volatile(op)",
        "True",
        "loads pass volatile ones",
        f"{EARLY}::test_nothing_passes",
    ),
    rewritten(
        "scheduling/load_early",
        "_Behind.take",
        "any((operand in self.late for operand in op.operands))",
        "False",
        "loads do not wait for the addresses that an exchange gives",
        f"{EARLY}::test_load_that_needs_the_exchange_stays_and_holds_back_no_other",
    ),
    rewritten(
        "scheduling/exchanges",
        "is_exchange",
        "looped and op.name in _SHARED",
        "op.name in _SHARED",
        "loads outside of loops come before accesses to shared memory",
        f"{EARLY}::test_accesses_to_shared_memory_count_in_loops",
    ),
    rewritten(
        "scheduling/load_ahead",
        "_load",
        "[runs, rest[0], none]",
        "[runs, rest[0], rest[0]]",
        "a masked load is done for an iteration that does not run",
        f"{AHEAD}::test_every_kind_of_load_in_loops_of_any_length",
    ),
    rewritten(
        "scheduling/load_ahead",
        "_Advance._loaded",
        "_UNSIGNED in loop.attributes",
        "True",
        "a counter is compared without its sign",
        f"{AHEAD}::test_counters_below_zero",
    ),
    rewritten(
        "scheduling/load_ahead",
        "_repeats",
        "known.divides",
        "False",
        "an iteration that does not run may divide by zero",
        f"{AHEAD}::test_loops_that_stay",
    ),
    rewritten(
        "scheduling/load_ahead",
        "_Advance.of",
        "not writes.may_precede(op)",
        "True",
        "a load is begun before what it reads is stored",
        f"{AHEAD}::test_loops_that_stay",
    ),
    rewritten(
        "analysis/writes",
        "Writes._end",
        "self.places.ends[loops[-1]] if loops else self.places.numbers[op]",
        "self.places.numbers[op]",
        "what an iteration writes is not seen by loads of the next",
        f"{EARLY}::test_load_of_what_an_iteration_writes_stays_in_the_next",
    ),
    rewritten(
        "analysis/flow",
        "handed_on",
        "passed_to(value)",
        "passed_to(value)[:1]",
        "pointers are what a loop begins with",
        f"{EARLY}::test_load_of_what_was_written_stays_behind_the_barrier",
    ),
)
