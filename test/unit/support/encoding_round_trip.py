"""Takes what Triton prints of each encoding through the bridge and back.

    python encoding_round_trip.py CASES_OF_EACH_FAMILY

A process of its own, as libtriton ends it where it does not understand an encoding. What is tried is printed
first, so the last line says which it was.
"""

from __future__ import annotations

import sys

from triton_linear.dialect import bridge, encodings
from triton_linear.dialect.triton_versions import installed_release
from triton_linear.tools.doctor.encodings import Cases, Oracle

MEMORY = ("swizzled", "rotating", "nvmma", "shared linear")
MODULE = 'module attributes {{"ttg.num-warps" = 4 : i32}} {{ tt.func private @f({types}) }}\n'


def main() -> int:
    oracle, context = Oracle(), bridge.triton_context()
    for case in Cases(oracle, 77).each(int(sys.argv[1])):
        is_memory = case.family in MEMORY
        text = case.attribute if isinstance(case.attribute, str) else oracle.text(case.attribute, case.shape)
        if "[[" not in text and text.startswith("#ttg.linear"):
            continue  # Triton reads no layout without vectors
        texts = [text]
        if not is_memory:
            layout = encodings.layout_of(text, case.shape, case.element_bits)
            if installed_release() < (3, 7):  # from then on Triton refuses layouts that are no permutation
                texts.append(encodings.linear_encoding_text(layout))
        print(case.family, *texts, flush=True)
        sizes = "x".join(map(str, case.shape))
        kind = "!ttg.memdesc<{}xi{}, {}, #ttg.shared_memory>" if is_memory else "tensor<{}xi{}, {}>"
        types = ", ".join(kind.format(sizes, case.element_bits, each) for each in texts)
        before = bridge.parse_triton(MODULE.format(types=types), context)
        upstream = bridge.to_upstream(before, bridge.upstream_context())
        after = bridge.to_triton(upstream, context)
        assert str(after) == str(before), f"{before}\n{after}"
    print("done", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
