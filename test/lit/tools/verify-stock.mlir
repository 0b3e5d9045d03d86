// The code that Triton itself emits; what it gets wrong is in test/unit/tools/test_stock.py, planted and not.
// RUN: triton-linear verify %s --lowering=stock | FileCheck %s
// RUN: triton-linear verify %s --lowering=ours | FileCheck %s --check-prefix=OURS
// RUN: triton-linear verify %s --lowering=both | FileCheck %s
// RUN: triton-linear verify %s --lowering=both | FileCheck %s --check-prefix=OURS
// RUN: not triton-linear verify %s --lowering=theirs 2>&1 | FileCheck %s --check-prefix=CHOICE

// CHECK:      verify-stock.mlir:[[# @LINE + 12]]:10: 64xf32 blocked -> blocked: {{.*}} alu; 0 wrong of 64, 0 races
// CHECK-NEXT: stock Triton, 1 conversion: 1 right


// OURS: 1 conversion verified, 0 wrong

// CHOICE: --lowering: no 'theirs'; there are ours, stock, both

#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
#pairs = #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @right(%x: tensor<64xf32, #blocked>) {
    %0 = ttg.convert_layout %x : tensor<64xf32, #blocked> -> tensor<64xf32, #pairs>
    %1 = tt.elementwise_inline_asm "// used" {constraints = "=r,r", packed_element = 1 : i32, pure = false} %0 : tensor<64xf32, #pairs> -> tensor<64xf32, #pairs>
    tt.return
  }
}
