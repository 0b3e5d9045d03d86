// Gathers are run too, on random indices.
// RUN: triton-linear verify %s | FileCheck %s

// CHECK: verify-gather.mlir:14:{{[0-9]+}}: 8x8xf32 blocked by 8x8xi32 blocked: gather: 1 shuffle, 0 selects, 0 permutes; {{.*}}; 0 wrong of {{[0-9]+}}, 0 races, plan proved
// CHECK: verify-gather.mlir:{{.*}}: 8x8xf32 blocked by 8x8xi32 blocked: gather left to Triton: index bit 4 names an element of another warp
// CHECK: 1 gather verified, 0 wrong, 1 left to Triton
// CHECK: 0 conversions verified, 0 wrong
// CHECK-NOT: {{.}}

#lanes = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [4, 8], warpsPerCTA = [2, 1], order = [1, 0]}>
#across = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [8, 4], warpsPerCTA = [1, 2], order = [1, 0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 2 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @inside(%x: tensor<8x8xf32, #lanes>, %i: tensor<8x8xi32, #lanes>, %y: tensor<8x8xf32, #across>, %j: tensor<8x8xi32, #across>, %p: tensor<8x8x!tt.ptr<f32>, #lanes>, %q: tensor<8x8x!tt.ptr<f32>, #across>) {
    %0 = tt.gather %x[%i] {axis = 1 : i32} : (tensor<8x8xf32, #lanes>, tensor<8x8xi32, #lanes>) -> tensor<8x8xf32, #lanes>
    tt.store %p, %0 : tensor<8x8x!tt.ptr<f32>, #lanes>
    %1 = tt.gather %y[%j] {axis = 1 : i32} : (tensor<8x8xf32, #across>, tensor<8x8xi32, #across>) -> tensor<8x8xf32, #across>
    tt.store %q, %1 : tensor<8x8x!tt.ptr<f32>, #across>
    tt.return
  }
}
