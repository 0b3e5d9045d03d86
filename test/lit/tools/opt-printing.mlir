// What is printed besides the output goes to the standard error.
// RUN: triton-linear-opt %s --linear-await-operands --linear-select-lowering --mlir-print-ir-after-all -o %t.mlir 2> %t.dump
// RUN: FileCheck %s --check-prefix=DUMP < %t.dump
// RUN: FileCheck %s --check-prefix=FINAL < %t.mlir
// RUN: triton-linear-opt %s --linear-await-operands --linear-select-lowering --mlir-timing -o %t.mlir 2> %t.time
// RUN: FileCheck %s --check-prefix=TIME < %t.time
// RUN: triton-linear-opt %s --mlir-print-op-generic --mlir-print-debuginfo | FileCheck %s --check-prefix=LOCATIONS
// RUN: triton-linear-opt %s --mlir-print-debuginfo --emit=ttgir | FileCheck %s --check-prefix=LOCATIONS

// Triton's own form, with attributes that Triton does not know, is read again.
// RUN: triton-linear-opt %t.mlir | FileCheck %s --check-prefix=FINAL
// RUN: triton-linear-opt %t.mlir --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC

// DUMP:     IR Dump After linear-await-operands
// DUMP:     ttg.convert_layout %arg0 : tensor<64xf32, #blocked>
// DUMP:     IR Dump After linear-select-lowering
// DUMP:     ttg.convert_layout %arg0 {ll.plan = #ll.plan<"shuffle"

// FINAL-NOT: IR Dump
// FINAL:     ttg.convert_layout %arg0 {ll.plan

// GENERIC:   "ttg.convert_layout"(%arg0) {ll.plan = #ll.plan<"shuffle"

// TIME: pass execution timing
// TIME: total: {{[0-9.]+}} seconds
// TIME: {{[0-9.]+}} ({{ *[0-9.]+}}%) linear-await-operands
// TIME: {{[0-9.]+}} ({{ *[0-9.]+}}%) linear-select-lowering

// Operations without a location of their own have that of their text; others keep theirs.
// LOCATIONS-DAG: opt-printing.mlir":[[# @LINE + 5]]:
// LOCATIONS-DAG: "kernel.py":7:8

#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
#pairs = #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @kernel(%x: tensor<64xf32, #blocked>, %p: tensor<64x!tt.ptr<f32>, #pairs>) {
    %y = ttg.convert_layout %x : tensor<64xf32, #blocked> -> tensor<64xf32, #pairs> loc("kernel.py":7:8)
    tt.store %p, %y : tensor<64x!tt.ptr<f32>, #pairs>
    tt.return
  }
}
