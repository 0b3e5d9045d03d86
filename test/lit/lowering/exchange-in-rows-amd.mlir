// RUN: triton-linear-opt %s --split-input-file --linear-pipeline --no-assign --no-reductions --emit=amdgcn --target=hip:gfx90a | FileCheck %s
// RUN: triton-linear-opt %s --split-input-file --linear-pipeline --no-assign --no-reductions --emit=amdgcn --target=hip:gfx942 | FileCheck %s
// RUN: triton-linear-opt %s --split-input-file --linear-pipeline --no-assign --no-reductions --emit=amdgcn --target=hip:gfx950 | FileCheck %s

// The register bit and one bit of the lanes change places; thread 0 holds, before and after:
//   registers   0 1   ->   0 2^(k+1)

// A bit of the lanes of four: what a lane gives away is chosen, read by DPP, and put in its place by selects.

// CHECK-LABEL: lane_bit_0:
// CHECK-NOT:     {{ds_|permlane|quad_perm|row_[shrxb]|s_barrier}}
// CHECK:         v_cndmask_b32
// CHECK-NOT:     {{ds_|permlane|row_[shrxb]|cndmask|s_barrier}}
// CHECK:         v_mov_b32_dpp {{.*}} quad_perm:[1,0,3,2]
// CHECK-NOT:     {{ds_|permlane|quad_perm|row_[shrxb]|s_barrier}}
// CHECK-COUNT-2: v_cndmask_b32
// CHECK-NOT:     {{ds_|permlane|quad_perm|row_[shrxb]|cndmask|s_barrier}}
// CHECK:         s_endpgm

#src = #ttg.linear<{register = [[1]], lane = [[2], [4], [8], [16], [32], [64]], warp = [], block = []}>
#dst = #ttg.linear<{register = [[2]], lane = [[1], [4], [8], [16], [32], [64]], warp = [], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "hip:gfx942", "ttg.threads-per-warp" = 64 : i32} {
  tt.func public @lane_bit_0(%x: tensor<128xf32, #src>, %p: tensor<128x!tt.ptr<f32>, #dst>) {
    %y = ttg.convert_layout %x : tensor<128xf32, #src> -> tensor<128xf32, #dst>
    tt.store %p, %y : tensor<128x!tt.ptr<f32>, #dst>
    tt.return
  }
}

// -----

// CHECK-LABEL: lane_bit_1:
// CHECK-NOT:     {{ds_|permlane|quad_perm|row_[shrxb]|s_barrier}}
// CHECK:         v_cndmask_b32
// CHECK-NOT:     {{ds_|permlane|row_[shrxb]|cndmask|s_barrier}}
// CHECK:         v_mov_b32_dpp {{.*}} quad_perm:[2,3,0,1]
// CHECK-NOT:     {{ds_|permlane|quad_perm|row_[shrxb]|s_barrier}}
// CHECK-COUNT-2: v_cndmask_b32
// CHECK-NOT:     {{ds_|permlane|quad_perm|row_[shrxb]|cndmask|s_barrier}}
// CHECK:         s_endpgm

#src = #ttg.linear<{register = [[1]], lane = [[2], [4], [8], [16], [32], [64]], warp = [], block = []}>
#dst = #ttg.linear<{register = [[4]], lane = [[2], [1], [8], [16], [32], [64]], warp = [], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "hip:gfx942", "ttg.threads-per-warp" = 64 : i32} {
  tt.func public @lane_bit_1(%x: tensor<128xf32, #src>, %p: tensor<128x!tt.ptr<f32>, #dst>) {
    %y = ttg.convert_layout %x : tensor<128xf32, #src> -> tensor<128xf32, #dst>
    tt.store %p, %y : tensor<128x!tt.ptr<f32>, #dst>
    tt.return
  }
}

// -----

// A bit of the fours in a row: two shifts, each into the fours that its bank mask names, over what they keep. No
// selects.

// CHECK-LABEL: lane_bit_2:
// CHECK-NOT:     {{ds_|permlane|quad_perm|cndmask|s_barrier}}
// CHECK:         v_mov_b32_dpp {{.*}} row_shr:4 row_mask:0xf bank_mask:0xa
// CHECK-NOT:     {{ds_|permlane|quad_perm|cndmask|s_barrier}}
// CHECK:         v_mov_b32_dpp {{.*}} row_shl:4 row_mask:0xf bank_mask:0x5
// CHECK-NOT:     {{ds_|permlane|quad_perm|row_[shrxb]|cndmask|s_barrier}}
// CHECK:         s_endpgm

#src = #ttg.linear<{register = [[1]], lane = [[2], [4], [8], [16], [32], [64]], warp = [], block = []}>
#dst = #ttg.linear<{register = [[8]], lane = [[2], [4], [1], [16], [32], [64]], warp = [], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "hip:gfx942", "ttg.threads-per-warp" = 64 : i32} {
  tt.func public @lane_bit_2(%x: tensor<128xf32, #src>, %p: tensor<128x!tt.ptr<f32>, #dst>) {
    %y = ttg.convert_layout %x : tensor<128xf32, #src> -> tensor<128xf32, #dst>
    tt.store %p, %y : tensor<128x!tt.ptr<f32>, #dst>
    tt.return
  }
}

// -----

// CHECK-LABEL: lane_bit_3:
// CHECK-NOT:     {{ds_|permlane|quad_perm|cndmask|s_barrier}}
// CHECK:         v_mov_b32_dpp {{.*}} row_shr:8 row_mask:0xf bank_mask:0xc
// CHECK-NOT:     {{ds_|permlane|quad_perm|cndmask|s_barrier}}
// CHECK:         v_mov_b32_dpp {{.*}} row_shl:8 row_mask:0xf bank_mask:0x3
// CHECK-NOT:     {{ds_|permlane|quad_perm|row_[shrxb]|cndmask|s_barrier}}
// CHECK:         s_endpgm

#src = #ttg.linear<{register = [[1]], lane = [[2], [4], [8], [16], [32], [64]], warp = [], block = []}>
#dst = #ttg.linear<{register = [[16]], lane = [[2], [4], [8], [1], [32], [64]], warp = [], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "hip:gfx942", "ttg.threads-per-warp" = 64 : i32} {
  tt.func public @lane_bit_3(%x: tensor<128xf32, #src>, %p: tensor<128x!tt.ptr<f32>, #dst>) {
    %y = ttg.convert_layout %x : tensor<128xf32, #src> -> tensor<128xf32, #dst>
    tt.store %p, %y : tensor<128x!tt.ptr<f32>, #dst>
    tt.return
  }
}
