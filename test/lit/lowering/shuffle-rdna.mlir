// RUN: triton-linear-opt %s --split-input-file --linear-pipeline --no-assign --no-reductions --emit=amdgcn --target=hip:gfx1100 | FileCheck %s
// RUN: triton-linear-opt %s --split-input-file --linear-pipeline --no-assign --no-reductions --emit=amdgcn --target=hip:gfx1200 | FileCheck %s

// Lanes 1 and 2 of each group of four change places: one move by DPP for each register.
//   lane      0 1 2 3        0 1 2 3
//   element   0 1 2 3   ->   0 2 1 3

// CHECK-LABEL: lanes_of_four_change_places:
// CHECK-NOT:     {{ds_|permlane|row_[shrxb]|cndmask|s_barrier}}
// CHECK:         v_mov_b32_dpp {{.*}} quad_perm:[0,2,1,3]
// CHECK-NOT:     {{ds_|permlane|quad_perm|row_[shrxb]|cndmask|s_barrier}}
// CHECK:         s_endpgm

#src = #ttg.linear<{register = [], lane = [[1], [2], [4], [8], [16]], warp = [], block = []}>
#dst = #ttg.linear<{register = [], lane = [[2], [1], [4], [8], [16]], warp = [], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "hip:gfx1100", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @lanes_of_four_change_places(%x: tensor<32xf32, #src>, %p: tensor<32x!tt.ptr<f32>, #dst>) {
    %y = ttg.convert_layout %x : tensor<32xf32, #src> -> tensor<32xf32, #dst>
    tt.store %p, %y : tensor<32x!tt.ptr<f32>, #dst>
    tt.return
  }
}

// -----

// Lanes change places within rows of 16, as selects say that are the same for both rows.
//   lane      0 1 2 3 4 5 6 7        0 1 2 3 4 5 6 7
//   element   0 1 2 3 4 5 6 7   ->   0 4 2 6 1 5 3 7

// CHECK-LABEL: lanes_of_rows_change_places:
// CHECK-NOT:     {{ds_|quad_perm|row_[shrxb]|cndmask|s_barrier}}
// CHECK:         v_permlane16_b32 {{.*}}, 0xfbd9eac8
// CHECK-NOT:     {{ds_|permlane|quad_perm|row_[shrxb]|cndmask|s_barrier}}
// CHECK:         s_endpgm

#src = #ttg.linear<{register = [], lane = [[1], [2], [4], [8], [16]], warp = [], block = []}>
#dst = #ttg.linear<{register = [], lane = [[4], [2], [1], [8], [16]], warp = [], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "hip:gfx1100", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @lanes_of_rows_change_places(%x: tensor<32xf32, #src>, %p: tensor<32x!tt.ptr<f32>, #dst>) {
    %y = ttg.convert_layout %x : tensor<32xf32, #src> -> tensor<32xf32, #dst>
    tt.store %p, %y : tensor<32x!tt.ptr<f32>, #dst>
    tt.return
  }
}

// -----

// Every second lane of a row changes places with one of the other row, so that a row reads from both: through the LDS
// hardware.

// CHECK-LABEL: lanes_of_both_rows_change_places:
// CHECK-NOT:     {{permlane|quad_perm|row_[shrxb]|cndmask|s_barrier}}
// CHECK:         ds_bpermute_b32
// CHECK-NOT:     {{ds_|permlane|quad_perm|row_[shrxb]|cndmask|s_barrier}}
// CHECK:         s_endpgm

#src = #ttg.linear<{register = [], lane = [[1], [2], [4], [8], [16]], warp = [], block = []}>
#dst = #ttg.linear<{register = [], lane = [[16], [2], [4], [8], [1]], warp = [], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "hip:gfx1100", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @lanes_of_both_rows_change_places(%x: tensor<32xf32, #src>, %p: tensor<32x!tt.ptr<f32>, #dst>) {
    %y = ttg.convert_layout %x : tensor<32xf32, #src> -> tensor<32xf32, #dst>
    tt.store %p, %y : tensor<32x!tt.ptr<f32>, #dst>
    tt.return
  }
}
