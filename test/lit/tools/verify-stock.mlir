// The code that Triton itself emits: right for one conversion, wrong for the other; ours is right for both.
// RUN: not triton-linear verify %s --lowering=stock | FileCheck %s
// RUN: not triton-linear verify %s --lowering=stock --json | FileCheck %s --check-prefix=JSON
// RUN: triton-linear verify %s --lowering=ours | FileCheck %s --check-prefix=OURS
// RUN: not triton-linear verify %s --lowering=theirs 2>&1 | FileCheck %s --check-prefix=CHOICE

// CHECK:      verify-stock.mlir:[[# @LINE + 27]]:10: 64xf32 blocked -> blocked: {{.*}} alu, {{.*}}; 0 wrong of 64, 0 races
// CHECK-NEXT: verify-stock.mlir:[[# @LINE + 31]]:10: 4xi32 linear -> linear: 0 wavefronts (0 at least), {{.*}}; 16 wrong of 32, 0 races
// CHECK-NEXT: register 0 of thread {{[0-9]+}} should hold element {{[0-9]+}}, holds something else
// CHECK:      stock Triton, 2 conversions: 1 right, 1 wrong

// JSON:      "status": "right"
// JSON-NEXT: "checked": 64
// JSON-NEXT: "wrong": 0
// JSON:      "location": "{{.*}}verify-stock.mlir:[[# @LINE + 24]]:10"
// JSON-NEXT: "source": "tensor<4xi32, #ttg.linear<
// JSON-NEXT: "destination": "tensor<4xi32, #ttg.linear<
// JSON-NEXT: "status": "wrong"
// JSON-NEXT: "checked": 32
// JSON-NEXT: "wrong": 16
// JSON:      "verified": 2,
// JSON-NEXT: "wrong": 1

// OURS: 2 conversions verified, 0 wrong

// CHOICE: invalid choice: 'theirs'

#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
#pairs = #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
#bits = #ttg.linear<{register = [], lane = [[1], [2], [0], [0], [0]], warp = [], block = []}>
#sums = #ttg.linear<{register = [], lane = [[2], [3], [0], [0], [0]], warp = [], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @right(%x: tensor<64xf32, #blocked>) {
    %0 = ttg.convert_layout %x : tensor<64xf32, #blocked> -> tensor<64xf32, #pairs>
    %1 = tt.elementwise_inline_asm "// used" {constraints = "=r,r", packed_element = 1 : i32, pure = false} %0 : tensor<64xf32, #pairs> -> tensor<64xf32, #pairs>
    tt.return
  }
  tt.func public @wrong(%x: tensor<4xi32, #bits>) {
    %0 = ttg.convert_layout %x : tensor<4xi32, #bits> -> tensor<4xi32, #sums>
    %1 = tt.elementwise_inline_asm "// used" {constraints = "=r,r", packed_element = 1 : i32, pure = false} %0 : tensor<4xi32, #sums> -> tensor<4xi32, #sums>
    tt.return
  }
}
