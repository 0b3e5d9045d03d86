// A module that does not say how many warps it is for is TTIR, and is refused as such.
// RUN: not triton-linear verify %s --target=cuda:90 2>&1 | FileCheck %s
// RUN: not triton-linear-opt %s --mlir-print-op-generic --target=cuda:90 --linear-pipeline 2>&1 | FileCheck %s
// RUN: not triton-linear-opt %s --target=cuda:90 --emit=ptx 2>&1 | FileCheck %s

// CHECK:      ttir.mlir:[[# @LINE + 4]]:1: error: the module has no 'ttg.num-warps': is it TTIR rather than TTGIR?
// CHECK-NEXT: module {
// CHECK-NOT:  error:

module {
  tt.func public @kernel() { tt.return }
}
