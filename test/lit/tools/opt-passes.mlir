// Passes run in the order of their flags; a pipeline as text and the flag for all of them do the same.
// RUN: triton-linear-opt %s --mlir-print-op-generic | FileCheck %s --check-prefix=NONE
// RUN: triton-linear-opt %s --mlir-print-op-generic --linear-select-lowering=target=cuda:80 | FileCheck %s --check-prefix=SELECT
// RUN: triton-linear-opt %s --mlir-print-op-generic --linear-select-lowering='target=cuda:80 scratch-limit=64' --linear-outline-conversions | FileCheck %s --check-prefix=OUTLINE
// RUN: triton-linear-opt %s --mlir-print-op-generic --pass-pipeline='builtin.module(linear-select-lowering{target=cuda:80 scratch-limit=64},linear-outline-conversions)' | FileCheck %s --check-prefix=OUTLINE
// RUN: triton-linear-opt %s --mlir-print-op-generic --linear-pipeline | FileCheck %s --check-prefix=ALL

// NONE:     "ttg.convert_layout"(%arg0) : (tensor<64xf32
// NONE-NOT: ll.

// SELECT: "ttg.convert_layout"(%arg0) {ll.plan = #ll.plan<"shuffle"
// SELECT-NOT: tt.call

// OUTLINE-NOT:  ttg.convert_layout
// OUTLINE:      "tt.call"(%arg0) {callee = @__ll_cvt_0}
// OUTLINE:      sym_name = "__ll_cvt_0"
// OUTLINE:      ll.scratch_limit = 64 : i64

// ALL-NOT: ttg.convert_layout
// ALL:     "tt.call"(%arg0) {callee = @__ll_cvt_0
// ALL:     ll.destination = #ll.layout<{block = [], lane = {{\[\[}}2], [4], [8], [16], [32]], register = {{\[\[}}1]], warp = []}, [64]>

#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
#pairs = #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @kernel(%x: tensor<64xf32, #blocked>, %p: tensor<64x!tt.ptr<f32>, #pairs>) {
    %y = ttg.convert_layout %x : tensor<64xf32, #blocked> -> tensor<64xf32, #pairs>
    tt.store %p, %y : tensor<64x!tt.ptr<f32>, #pairs>
    tt.return
  }
}
