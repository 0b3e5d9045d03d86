// Assembly is made of exactly one kernel.
// RUN: not triton-linear-opt %s --emit=ptx 2>&1 | FileCheck %s
// RUN: not triton-linear-opt %s --emit=ptx --verify-diagnostics 2>&1 | FileCheck %s --check-prefix=EXPECT
// RUN: triton-linear verify %s | FileCheck %s --check-prefix=VERIFY

// CHECK: error: emit ptx: the module must hold exactly one kernel, found 2: one, two
// EXPECT: unexpected error: emit ptx: the module must hold exactly one kernel, found 2: one, two
// VERIFY: 0 conversions verified, 0 wrong

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @one() { tt.return }
  tt.func public @two() { tt.return }
}
