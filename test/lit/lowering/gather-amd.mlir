// RUN: triton-linear-opt %s --linear-pipeline --no-assign --no-reductions --emit=amdgcn | FileCheck %s

// The row of eight is in eight lanes: each asks the one that its index names, and memory is not written.

// CHECK-LABEL: columns_in_lanes:
// CHECK-NOT:     {{ds_write|ds_read|s_barrier}}
// CHECK:         ds_bpermute_b32
// CHECK-NOT:     {{ds_|s_barrier}}
// CHECK:         global_store

#l = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [8, 8], warpsPerCTA = [1, 1], order = [1, 0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "hip:gfx942", "ttg.threads-per-warp" = 64 : i32} {
  tt.func public @columns_in_lanes(%x: tensor<8x8xf32, #l>, %i: tensor<8x8xi64, #l>, %p: tensor<8x8x!tt.ptr<f32>, #l>) {
    %y = tt.gather %x[%i] {axis = 1 : i32} : (tensor<8x8xf32, #l>, tensor<8x8xi64, #l>) -> tensor<8x8xf32, #l>
    tt.store %p, %y : tensor<8x8x!tt.ptr<f32>, #l>
    tt.return
  }
}
