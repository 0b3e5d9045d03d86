"""The probes, in the order in which they run."""

from __future__ import annotations

from triton_linear.tools.doctor.probe import Counts, Findings, Probe, isolated

HERE = "triton_linear.tools.doctor"
STAGED = ("cuda:80", "cuda:90", "cuda:100", "hip:gfx942", "hip:gfx950", "hip:gfx1200")
"""The GPUs for which staged accesses are compared."""
ENCODING_PARTS = 17
"""The number of calls for the families of encodings, one family each, so that a crash affects no other
family."""


def hooks(counts: Counts) -> Findings:
    """Check the parts of Triton that the plugin wraps or reads."""
    return isolated(f"{HERE}.hooks:checked", [()], 1)


def _examples(function: str, counts: Counts) -> Findings:
    parts = counts.jobs
    calls = [(target, part, parts) for target in counts.targets for part in range(parts)]
    return isolated(function, calls, counts.jobs)


def bridge(counts: Counts) -> Findings:
    """Move the modules of the examples to upstream MLIR and back."""
    return _examples(f"{HERE}.modules:bridged", counts)


def encodings(counts: Counts) -> Findings:
    """Compare the layouts of random encodings."""
    calls = [(part, ENCODING_PARTS, counts.encodings, counts.seed) for part in range(ENCODING_PARTS)]
    return isolated(f"{HERE}.encodings:compared", calls, counts.jobs)


def _drawn(counts: Counts) -> list[tuple[object, ...]]:
    return [(-(-counts.kernels // counts.jobs), f"{counts.seed} {part}") for part in range(counts.jobs)]


def global_memory(counts: Counts) -> Findings:
    """Compare the instructions of loads and stores."""
    return isolated(f"{HERE}.accesses:of_global_memory", _drawn(counts), counts.jobs)


def shared_memory(counts: Counts) -> Findings:
    """Compare the instructions of accesses to shared memory."""
    return isolated(f"{HERE}.accesses:of_shared_memory", _drawn(counts), counts.jobs)


def wavefronts(counts: Counts) -> Findings:
    """Compare the wavefronts of accesses to shared memory that are run in the interpreter."""
    calls = [(target, counts.staged, counts.seed) for target in STAGED]
    return isolated(f"{HERE}.accesses:staged", calls, counts.jobs)


def conversions(counts: Counts) -> Findings:
    """Fuzz random conversions."""
    from triton_linear.tools.doctor.conversions import fuzzed

    return fuzzed(counts)


def examples(counts: Counts) -> Findings:
    """Compile the examples, and run their conversions in the interpreter."""
    return _examples(f"{HERE}.modules:compiled", counts)


PROBES = (
    Probe("hooks", "what the plugin wraps is there, and is called as it was", "plugin/hook.py", hooks),
    Probe("bridge", "modules of the examples come back as they went", "dialect/bridge.py", bridge),
    Probe(
        "encodings",
        "layouts of drawn encodings, against Triton's own",
        "dialect/encodings/ and the spans that it asks",
        encodings,
    ),
    Probe(
        "global memory",
        "loads and stores are as many and as wide as predicted",
        "passes/analysis/global_memory.py",
        global_memory,
    ),
    Probe(
        "shared memory",
        "accesses to shared memory are those predicted",
        "passes/analysis/shared_memory.py",
        shared_memory,
    ),
    Probe(
        "wavefronts",
        "what they take, Triton's own and staged ones, run in the interpreter",
        "passes/staging/, lowering/target/phases.py",
        wavefronts,
    ),
    Probe(
        "conversions",
        "random conversions, alone and in programs, run in the interpreter",
        "lowering/emit/, 'triton-linear fuzz'",
        conversions,
    ),
    Probe(
        "examples", "compiled with our code, which is run in the interpreter", "'triton-linear demo'", examples
    ),
)
