// RUN: triton-linear-opt %s --split-input-file --linear-select-lowering --linear-outline-conversions --emit=amdgcn | FileCheck %s

// Of our scratch Triton 3.9 is shown the first byte of every 16, where buffers of its own begin.

// The scratch takes the place of two dead buffers of 16 bytes. Only the second, not where the scratch begins, was
// read since the last barrier.
// CHECK-LABEL: {{^}}second_read:
// CHECK:       ds_write2_b32
// CHECK:       s_barrier
// CHECK:       ds_read_b32 {{.*}} offset:16
// CHECK-NOT:   ds_
// CHECK:       s_barrier
// CHECK-NOT:   s_barrier
// CHECK:       ds_write_b128
// CHECK-NOT:   ds_
// CHECK:       s_barrier
// CHECK-NOT:   s_barrier
// CHECK:       ds_read_b128
// CHECK:       s_endpgm

#src = #ttg.linear<{register = [[1], [2]], lane = [[4], [8], [16], [32], [64], [128]], warp = [[256], [512]], block = []}>
#dst = #ttg.linear<{register = [[1], [2]], lane = [[256], [512], [4], [8], [16], [32]], warp = [[64], [128]], block = []}>
#few = #ttg.linear<{register = [], lane = [[1], [2], [0], [0], [0], [0]], warp = [[0], [0]], block = []}>
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "hip:gfx942", "ttg.threads-per-warp" = 64 : i32} {
  tt.func public @second_read(%x: tensor<1024xf32, #src>, %y: tensor<4xf32, #few>, %p: tensor<1024x!tt.ptr<f32>, #dst>, %q: tensor<4x!tt.ptr<f32>, #few>) {
    %a = ttg.local_alloc %y : (tensor<4xf32, #few>) -> !ttg.memdesc<4xf32, #shared, #smem, mutable>
    %b = ttg.local_alloc %y : (tensor<4xf32, #few>) -> !ttg.memdesc<4xf32, #shared, #smem, mutable>
    %a1 = ttg.local_load %a : !ttg.memdesc<4xf32, #shared, #smem, mutable> -> tensor<4xf32, #few>
    tt.store %q, %a1 : tensor<4x!tt.ptr<f32>, #few>
    gpu.barrier
    %b1 = ttg.local_load %b : !ttg.memdesc<4xf32, #shared, #smem, mutable> -> tensor<4xf32, #few>
    ttg.local_dealloc %a : !ttg.memdesc<4xf32, #shared, #smem, mutable>
    ttg.local_dealloc %b : !ttg.memdesc<4xf32, #shared, #smem, mutable>
    %c = ttg.convert_layout %x : tensor<1024xf32, #src> -> tensor<1024xf32, #dst>
    tt.store %p, %c : tensor<1024x!tt.ptr<f32>, #dst>
    tt.store %q, %b1 : tensor<4x!tt.ptr<f32>, #few>
    tt.return
  }
}

// -----

// Of a buffer that was there, a row of 8 bytes was read, which does not begin at 16.
// CHECK-LABEL: {{^}}row_read:
// CHECK:       s_barrier
// CHECK:       ds_read_b32
// CHECK-NOT:   ds_
// CHECK:       s_barrier
// CHECK-NOT:   s_barrier
// CHECK:       ds_write_b128
// CHECK-NOT:   ds_
// CHECK:       s_barrier
// CHECK-NOT:   s_barrier
// CHECK:       ds_read_b128
// CHECK:       s_endpgm

#src = #ttg.linear<{register = [[1], [2]], lane = [[4], [8], [16], [32], [64], [128]], warp = [[256], [512]], block = []}>
#dst = #ttg.linear<{register = [[1], [2]], lane = [[256], [512], [4], [8], [16], [32]], warp = [[64], [128]], block = []}>
#two = #ttg.linear<{register = [], lane = [[1], [0], [0], [0], [0], [0]], warp = [[0], [0]], block = []}>
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "hip:gfx942", "ttg.threads-per-warp" = 64 : i32} {
  tt.func public @row_read(%x: tensor<1024xf32, #src>, %y: tensor<2xf32, #two>, %p: tensor<1024x!tt.ptr<f32>, #dst>, %q: tensor<2x!tt.ptr<f32>, #two>) {
    %c1 = arith.constant 1 : i32
    %a = ttg.local_alloc : () -> !ttg.memdesc<2x2xf32, #shared, #smem, mutable>
    %row = ttg.memdesc_index %a[%c1] : !ttg.memdesc<2x2xf32, #shared, #smem, mutable> -> !ttg.memdesc<2xf32, #shared, #smem, mutable>
    ttg.local_store %y, %row : tensor<2xf32, #two> -> !ttg.memdesc<2xf32, #shared, #smem, mutable>
    gpu.barrier
    %a1 = ttg.local_load %row : !ttg.memdesc<2xf32, #shared, #smem, mutable> -> tensor<2xf32, #two>
    ttg.local_dealloc %a : !ttg.memdesc<2x2xf32, #shared, #smem, mutable>
    %c = ttg.convert_layout %x : tensor<1024xf32, #src> -> tensor<1024xf32, #dst>
    tt.store %p, %c : tensor<1024x!tt.ptr<f32>, #dst>
    tt.store %q, %a1 : tensor<2x!tt.ptr<f32>, #two>
    tt.return
  }
}
