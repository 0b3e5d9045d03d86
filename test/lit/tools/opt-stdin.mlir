// The standard input is the default, and what one run prints the next one reads.
// RUN: triton-linear-opt < %s | triton-linear-opt - --linear-select-lowering | triton-linear-opt --linear-outline-conversions --emit=ttgir | FileCheck %s
// RUN: not triton-linear-opt --linear-no-such-pass < %s 2>&1 | FileCheck %s --check-prefix=FLAG
// RUN: echo 'module {' | not triton-linear-opt 2>&1 | FileCheck %s --check-prefix=SYNTAX

// CHECK: nvvm.shfl.sync
// CHECK: tt.store

// FLAG:   no option '--linear-no-such-pass'; --help lists them
// SYNTAX: <stdin>:1:9: error: expected operation name in quotes

#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
#pairs = #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @kernel(%x: tensor<64xf32, #blocked>, %p: tensor<64x!tt.ptr<f32>, #pairs>) {
    %y = ttg.convert_layout %x : tensor<64xf32, #blocked> -> tensor<64xf32, #pairs>
    tt.store %p, %y : tensor<64x!tt.ptr<f32>, #pairs>
    tt.return
  }
}
