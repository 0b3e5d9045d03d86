"""The probes, in the order in which they run."""

from __future__ import annotations

from triton_linear.tools.doctor.probe import Counts, Findings, Probe, isolated

HERE = "triton_linear.tools.doctor"
RANDOM = (
    *("cuda:80", "cuda:90", "cuda:100", "hip:gfx90a", "hip:gfx942"),
    *("hip:gfx950", "hip:gfx1100", "hip:gfx1200"),
)
"""The GPUs for which random conversions are compiled."""
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


def conversions(counts: Counts) -> Findings:
    """Compile random conversions, and run them in the interpreter."""
    calls = [(target, counts.conversions, counts.seed) for target in RANDOM]
    return isolated(f"{HERE}.conversions:run", calls, counts.jobs)


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
        "conversions",
        "random conversions with our code, run in the interpreter",
        "lowering/emit/, 'python -m bench.fuzz'",
        conversions,
    ),
    Probe(
        "examples", "compiled with our code, which is run in the interpreter", "'triton-linear demo'", examples
    ),
)
