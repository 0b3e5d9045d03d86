// RUN: triton-linear-opt %s --mlir-print-op-generic --linear-pipeline | FileCheck %s
// RUN: triton-linear-opt %s --mlir-print-op-generic --pass-pipeline='builtin.module(linear-await-operands,linear-select-lowering,linear-outline-conversions)' | FileCheck %s
// RUN: triton-linear-opt %s --mlir-print-op-generic --linear-pipeline --mlir-print-ir-after-all -o /dev/null 2>&1 | FileCheck %s --check-prefix=AFTER

#pairs = #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
#comb = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"} {

// AFTER: // -----// IR Dump After linear-await-operands //----- //
// AFTER: // -----// IR Dump After linear-select-lowering //----- //
// AFTER: ll.plan = #ll.plan<
// AFTER: // -----// IR Dump After linear-outline-conversions //----- //
// AFTER: "tt.call"

// CHECK-LABEL: sym_name = "kernel"
// CHECK: [[MOVED:%.*]] = "tt.call"(%arg0) {callee = @__ll_cvt_0
// CHECK-NOT: ttg.convert_layout
// CHECK: "tt.return"([[MOVED]])
// CHECK: sym_name = "__ll_cvt_0"
// CHECK-NOT: tt.func
tt.func @kernel(%x: tensor<64xf32, #pairs>) -> tensor<64xf32, #comb> {
  %0 = ttg.convert_layout %x : tensor<64xf32, #pairs> -> tensor<64xf32, #comb>
  tt.return %0 : tensor<64xf32, #comb>
}

}
