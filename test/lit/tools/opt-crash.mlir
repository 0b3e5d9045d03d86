// Triton's backend aborts on a store of i1: that ends in a diagnostic as well.
// RUN: not triton-linear-opt %s --emit=ptx 2>&1 | FileCheck %s

// CHECK:     opt-crash.mlir: error: the compiler crashed with SIGABRT: {{.*}}Assertion
// CHECK-NOT: Traceback

#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @kernel(%x: tensor<32xi1, #blocked>, %p: tensor<32x!tt.ptr<i1>, #blocked>) {
    tt.store %p, %x : tensor<32x!tt.ptr<i1>, #blocked>
    tt.return
  }
}
