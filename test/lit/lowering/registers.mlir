// RUN: triton-linear-opt %s --split-input-file --linear-pipeline --no-assign --no-reductions --emit=ptx | FileCheck %s

// Two registers of every thread change places:
//   register  0 1 2 3        0 1 2 3
//   element   0 1 2 3   ->   0 2 1 3    (thread 0)

// CHECK-LABEL: .entry registers_change_places(
// CHECK-NOT:     {{shfl|[dt]\.shared|bar\.}}
// CHECK-COUNT-4: st.global.b32

#src = #ttg.linear<{register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [], block = []}>
#dst = #ttg.linear<{register = [[2], [1]], lane = [[4], [8], [16], [32], [64]], warp = [], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @registers_change_places(%x: tensor<128xf32, #src>, %p: tensor<128x!tt.ptr<f32>, #dst>) {
    %y = ttg.convert_layout %x : tensor<128xf32, #src> -> tensor<128xf32, #dst>
    tt.store %p, %y : tensor<128x!tt.ptr<f32>, #dst>
    tt.return
  }
}

// -----

// The destination holds every element twice: a copy in the same thread costs nothing.
//   register  0              0 1
//   element   0         ->   0 0        (thread 0)

// CHECK-LABEL: .entry registers_are_copied(
// CHECK-NOT:     {{shfl|[dt]\.shared|bar\.}}
// CHECK:         st.global.b32

#src = #ttg.linear<{register = [], lane = [[1], [2], [4], [8], [16]], warp = [], block = []}>
#dst = #ttg.linear<{register = [[0]], lane = [[1], [2], [4], [8], [16]], warp = [], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @registers_are_copied(%x: tensor<32xf32, #src>, %p: tensor<32x!tt.ptr<f32>, #dst>) {
    %y = ttg.convert_layout %x : tensor<32xf32, #src> -> tensor<32xf32, #dst>
    tt.store %p, %y : tensor<32x!tt.ptr<f32>, #dst>
    tt.return
  }
}
