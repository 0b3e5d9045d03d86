// RUN: triton-linear-opt %s --split-input-file --linear-pipeline --no-assign --no-reductions --emit=amdgcn | FileCheck %s

// A transpose of 8 registers with 8 lanes inside each warp. Four registers are stored at once; the lanes of a wave
// run together, and LDS serves them in order, so there is no barrier.

// CHECK-LABEL: transpose_inside_warps:
// CHECK-NOT:     s_barrier
// CHECK-COUNT-2: ds_write_b128
// CHECK-NOT:     {{s_barrier|ds_write}}
// CHECK-COUNT-8: ds_read_b32
// CHECK-NOT:     {{s_barrier|ds_}}
// CHECK:         s_endpgm

#src = #ttg.linear<{register = [[64], [128], [256]], lane = [[1], [2], [4], [8], [16], [32]], warp = [[512]], block = []}>
#dst = #ttg.linear<{register = [[1], [2], [4]], lane = [[8], [16], [32], [64], [128], [256]], warp = [[512]], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 2 : i32, ttg.target = "hip:gfx942", "ttg.threads-per-warp" = 64 : i32} {
  tt.func public @transpose_inside_warps(%x: tensor<1024xf32, #src>, %p: tensor<1024x!tt.ptr<f32>, #dst>) {
    %y = ttg.convert_layout %x : tensor<1024xf32, #src> -> tensor<1024xf32, #dst>
    tt.store %p, %y : tensor<1024x!tt.ptr<f32>, #dst>
    tt.return
  }
}

// -----

// Elements cross warps. The four registers of a thread stay together, so they move as one vector of 128 bits.

// CHECK-LABEL: vectors_cross_warps:
// CHECK:         ds_write_b128
// CHECK-NOT:     ds_
// CHECK:         s_barrier
// CHECK:         ds_read_b128
// CHECK-NOT:     {{ds_|s_barrier}}
// CHECK:         s_endpgm

#src = #ttg.linear<{register = [[1], [2]], lane = [[4], [8], [16], [32], [64], [128]], warp = [[256], [512]], block = []}>
#dst = #ttg.linear<{register = [[1], [2]], lane = [[256], [512], [4], [8], [16], [32]], warp = [[64], [128]], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "hip:gfx942", "ttg.threads-per-warp" = 64 : i32} {
  tt.func public @vectors_cross_warps(%x: tensor<1024xf32, #src>, %p: tensor<1024x!tt.ptr<f32>, #dst>) {
    %y = ttg.convert_layout %x : tensor<1024xf32, #src> -> tensor<1024xf32, #dst>
    tt.store %p, %y : tensor<1024x!tt.ptr<f32>, #dst>
    tt.return
  }
}
