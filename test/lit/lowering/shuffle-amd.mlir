// RUN: triton-linear-opt %s --split-input-file --linear-pipeline --emit=amdgcn | FileCheck %s

// Lanes 1 and 2 of each group of four change places; one permutation through the LDS hardware per register.
//   lane      0 1 2 3        0 1 2 3
//   element   0 1 2 3   ->   0 2 1 3

// CHECK-LABEL: lanes_change_places:
// CHECK-NOT:     {{ds_(read|write)|s_barrier}}
// CHECK:         ds_bpermute_b32
// CHECK-NOT:     {{ds_|s_barrier}}
// CHECK:         s_endpgm

#src = #ttg.linear<{register = [], lane = [[1], [2], [4], [8], [16], [32]], warp = [], block = []}>
#dst = #ttg.linear<{register = [], lane = [[2], [1], [4], [8], [16], [32]], warp = [], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "hip:gfx942", "ttg.threads-per-warp" = 64 : i32} {
  tt.func public @lanes_change_places(%x: tensor<64xf32, #src>, %p: tensor<64x!tt.ptr<f32>, #dst>) {
    %y = ttg.convert_layout %x : tensor<64xf32, #src> -> tensor<64xf32, #dst>
    tt.store %p, %y : tensor<64x!tt.ptr<f32>, #dst>
    tt.return
  }
}
