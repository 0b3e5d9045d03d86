// RUN: triton-linear-opt %s --split-input-file --linear-pipeline --no-assign --no-reductions --emit=amdgcn --target=hip:gfx90a | FileCheck %s
// RUN: triton-linear-opt %s --split-input-file --linear-pipeline --no-assign --no-reductions --emit=amdgcn --target=hip:gfx942 | FileCheck %s
// RUN: triton-linear-opt %s --split-input-file --linear-pipeline --no-assign --no-reductions --emit=amdgcn --target=hip:gfx950 | FileCheck %s --check-prefix=SWAPS

// The register bit and one bit of the lanes change places; thread 0 holds, before and after:
//   registers   0 1   ->   0 2^(k+1)

// The bit of the rows of 16: by the crossbar of LDS, at no address. gfx950 swaps rows of the two registers, without
// selects.

// CHECK-LABEL: lane_bit_4:
// CHECK-NOT:     {{ds_|permlane|quad_perm|row_[shrxb]|s_barrier}}
// CHECK:         v_cndmask_b32
// CHECK-NOT:     {{permlane|quad_perm|row_[shrxb]|cndmask|s_barrier}}
// CHECK:         ds_swizzle_b32 {{.*}} offset:swizzle(SWAP,16)
// CHECK-NOT:     {{ds_|permlane|quad_perm|row_[shrxb]|s_barrier}}
// CHECK-COUNT-2: v_cndmask_b32
// CHECK-NOT:     {{ds_|permlane|quad_perm|row_[shrxb]|cndmask|s_barrier}}
// CHECK:         s_endpgm

// SWAPS-LABEL: lane_bit_4:
// SWAPS-NOT:     {{ds_|quad_perm|row_[shrxb]|cndmask|s_barrier}}
// SWAPS:         v_permlane16_swap_b32
// SWAPS-NOT:     {{ds_|permlane|quad_perm|row_[shrxb]|cndmask|s_barrier}}
// SWAPS:         s_endpgm

#src = #ttg.linear<{register = [[1]], lane = [[2], [4], [8], [16], [32], [64]], warp = [], block = []}>
#dst = #ttg.linear<{register = [[32]], lane = [[2], [4], [8], [16], [1], [64]], warp = [], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "hip:gfx942", "ttg.threads-per-warp" = 64 : i32} {
  tt.func public @lane_bit_4(%x: tensor<128xf32, #src>, %p: tensor<128x!tt.ptr<f32>, #dst>) {
    %y = ttg.convert_layout %x : tensor<128xf32, #src> -> tensor<128xf32, #dst>
    tt.store %p, %y : tensor<128x!tt.ptr<f32>, #dst>
    tt.return
  }
}

// -----

// The bit of the halves of a wave: by the crossbar with an address; gfx950 swaps halves.

// CHECK-LABEL: lane_bit_5:
// CHECK-NOT:     {{ds_|permlane|quad_perm|row_[shrxb]|s_barrier}}
// CHECK:         v_cndmask_b32
// CHECK-NOT:     {{permlane|quad_perm|row_[shrxb]|cndmask|s_barrier}}
// CHECK:         ds_bpermute_b32
// CHECK-NOT:     {{ds_|permlane|quad_perm|row_[shrxb]|s_barrier}}
// CHECK-COUNT-2: v_cndmask_b32
// CHECK-NOT:     {{ds_|permlane|quad_perm|row_[shrxb]|cndmask|s_barrier}}
// CHECK:         s_endpgm

// SWAPS-LABEL: lane_bit_5:
// SWAPS-NOT:     {{ds_|quad_perm|row_[shrxb]|cndmask|s_barrier}}
// SWAPS:         v_permlane32_swap_b32
// SWAPS-NOT:     {{ds_|permlane|quad_perm|row_[shrxb]|cndmask|s_barrier}}
// SWAPS:         s_endpgm

#src = #ttg.linear<{register = [[1]], lane = [[2], [4], [8], [16], [32], [64]], warp = [], block = []}>
#dst = #ttg.linear<{register = [[64]], lane = [[2], [4], [8], [16], [32], [1]], warp = [], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "hip:gfx942", "ttg.threads-per-warp" = 64 : i32} {
  tt.func public @lane_bit_5(%x: tensor<128xf32, #src>, %p: tensor<128x!tt.ptr<f32>, #dst>) {
    %y = ttg.convert_layout %x : tensor<128xf32, #src> -> tensor<128xf32, #dst>
    tt.store %p, %y : tensor<128x!tt.ptr<f32>, #dst>
    tt.return
  }
}
