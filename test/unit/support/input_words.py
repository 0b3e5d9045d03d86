"""What wrong inputs are made of: words of modules, passes, targets and command lines."""

from __future__ import annotations

import re


def _words(text: str, between: str | None = None) -> tuple[str, ...]:
    """The words of a text that blanks or another mark part."""
    return tuple(word.strip() for word in text.split(between))


TOKEN = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|[%#!@^]?[A-Za-z_][\w.$-]*|[%#^]\d+|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|->|\s+|.'
)
NUMBERS = _words(r"""
    0 -1 1 2 3 5 7 8 32 33 64 100 1024 4096 65536 1048576 2097152 2147483647 2147483648 4294967296
    9223372036854775807 18446744073709551616 10000000000000000000000000000000000000000 -2147483648 1.5 1e400
    0x10 00 007
""")
TYPES = _words(r"""
    f32 f16 bf16 f64 f8E4M3FN f8E5M2 i1 i8 i16 i32 i64 i3 i128 index none tf32 f80 f128 i4 complex<f32>
    !tt.ptr<f32> !tt.ptr<tensor<4xf32>> vector<4xf32> ()
""")
ENCODINGS = _words(r"""
    #ttg.blocked #ttg.slice #ttg.linear #ttg.dot_op #ttg.nvidia_mma #ttg.amd_mfma #ttg.amd_wmma
    #ttg.swizzled_shared #ttg.padded_shared #ttg.nvmma_shared #ttg.shared_linear #ttg.none #ll.layout
    #ttng.tensor_memory_encoding #ttg.generic_linear #ttg.amd_rotating_shared #ttg.shared_memory
""")
TARGETS = (
    *_words(r"""
    cuda:80 cuda:86 cuda:90 cuda:100 cuda:120 hip:gfx90a hip:gfx942 hip:gfx950 hip:gfx1100 cuda:90a cuda:
    cuda:9000 cuda:-1 hip: hip:gfx hip:gfx9 hip:90 gfx942 cuda:sm_90 rocm:gfx942 CUDA:90 hip:gfx942:sramecc+
    metal:3 xpu:x
"""),
    *("cuda:٣", "", "cuda:90\n", "cuda:9" + "0" * 5000, " cuda:90", "☃"),
)
PASSES = _words(r"""
    linear-assign-layouts linear-select-lowering
    linear-outline-conversions linear-split-reductions
    linear-await-operands
""")
UPSTREAM = _words(r"""
    cse canonicalize symbol-dce inline sccp no-such-pass strip-debuginfo print-ir
""")
OPTIONS = (
    *_words(r"""
    target=cuda:80 target=hip:gfx942 scratch-limit=64 scratch-limit=0 scratch-limit=-1 scratch-limit=
    scratch-limit=1.5 target target= = x=1 only=0 only=-1 only=99999999999 target={} scratch_limit=4
"""),
    *(
        "scratch-limit=1" + "0" * 5000,
        "scratch-limit=٣",
        "scratch-limit=²",
        "target=cuda:80 target=cuda:90",
        "☃=1",
    ),
)
STAGES = _words(r"""
    mlir ttgir llvm llvmir ptx amdgcn cubin hsaco
""")
LINES = (
    *_words(
        r"""
    // ----- | // expected-error {{x}} | // expected-error-re@+1 {{a{{(}}b}} | // expected-error@ |
    // expected-note {{ | // expected-error@-99999 {{x}} | // expected-error@above {{x}} |
    // expected-remark-re@below {{{{[}}}} | } | { | module { | // expected-error@+99999999999999999999 {{x}} |
    tt.return | #loc = loc(unknown) | !a = !a | #b = #b | #q = #q<#q> | tt.func private @kernel() |
    tt.func @kernel() { tt.return } | {-# dialect_resources: {} #-} | ^bb0: |
    "ttg.convert_layout"() : () -> ()
""",
        "|",
    ),
    *("// -----\n// -----",),
)
ATTRIBUTES = _words(
    r"""
    ll.plan | ll.plan = 1 | ll.plan = #ll.plan<"x", {}, []> |
    ll.plan = #ll.plan<"shuffle", {clocks = "a"}, [1]> | ll.stock | ll.stock = 3 | ll.stock = "because" |
    ll.results = [1] | ll.results = 5 | ll.arguments = [] | ll.layout = #ll.layout<{lane = [[1]]}, [2]> |
    ll.source = #ll.layout<{lane = [[-1]]}, [3]> | ll.scratch_limit = 1 | ll.assigned | ll.widened = 0 |
    foo.bar = 1 | "" = 1 | tt.divisibility = 16 : i32 | noinline = 1 | ttg.partition = array<i32: 9> |
    allocation.offset = -1 : i32 | ll.element = 3 | ll.element = "f31" | ll.results = [#ll.layout<{}, []>]
""",
    "|",
)
SNIPPETS = (
    *_words(r"""
    ' " ` $ // /* < > ((((((((( loc( % # ! @ : -> = , x ? * %0#1 %0:2
"""),
    *("\x00", "\ufeff", "\r", "\r\n", "\t", "\x0b", "\u2028", "\x85", "é", "😀", "\\", "[" * 500, "{" * 500),
)
CHOSEN = _words(r"""
    ttg.num-warps ttg.num-ctas ttg.threads-per-warp ttg.target ttg.shared ttg.maxnreg
""")
GOOD = """\
#near = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
#far = #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90", \
"ttg.threads-per-warp" = 32 : i32} {
  tt.func public @kernel(%x: tensor<64xf32, #near>, %p: tensor<64x!tt.ptr<f32>, #far>) {
    %y = ttg.convert_layout %x : tensor<64xf32, #near> -> tensor<64xf32, #far>
    tt.store %p, %y : tensor<64x!tt.ptr<f32>, #far>
    tt.return
  }
}
"""
CONDITIONS = (
    "shared conversions > 0",
    "shared conversions in loops > 0",
    "conversions >= 1",
    "conflicts in loops > 3",
)
LAYOUTS = (
    "#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [2], order = [0]}>",
    "#ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>",
    "BlockedLayout([1, 4], [8, 4], [4, 1], [1, 0])",
    '{"register": [[1]], "lane": [[2], [4], [8], [16], [32]], "warp": []}',
    '{"register": [[1]], "lane": 3}',
    "BlockedLayout(",
    "{",
    "",
)
SHAPES = ("64", "64x64", "", "x", "0", "-1", "3x5", "64x", "1" * 40, "2147483648x2")
