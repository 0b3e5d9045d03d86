// RUN: triton-linear-opt %s --split-input-file --linear-pipeline --no-assign --no-reductions --emit=ptx | FileCheck %s

// Lanes 1 and 2 of each group of four change places; one indexed shuffle per register.
//   lane      0 1 2 3        0 1 2 3
//   element   0 1 2 3   ->   0 2 1 3

// CHECK-LABEL: .entry lanes_change_places(
// CHECK-NOT:     {{[dt]\.shared|bar\.}}
// CHECK:         shfl.sync.idx.b32
// CHECK-NOT:     {{shfl|[dt]\.shared|bar\.}}
// CHECK:         st.global.b32

#src = #ttg.linear<{register = [], lane = [[1], [2], [4], [8], [16]], warp = [], block = []}>
#dst = #ttg.linear<{register = [], lane = [[2], [1], [4], [8], [16]], warp = [], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @lanes_change_places(%x: tensor<32xf32, #src>, %p: tensor<32x!tt.ptr<f32>, #dst>) {
    %y = ttg.convert_layout %x : tensor<32xf32, #src> -> tensor<32xf32, #dst>
    tt.store %p, %y : tensor<32x!tt.ptr<f32>, #dst>
    tt.return
  }
}

// -----

// A lane bit and a register bit change places: each thread keeps one register and ships the other.
//   lane             0        1             0        1
//   registers        0 32     1 33    ->    0 1      32 33

// CHECK-LABEL: .entry lane_and_register_change_places(
// CHECK-NOT:     {{[dt]\.shared|bar\.}}
// CHECK:         selp.b32
// CHECK:         shfl.sync.bfly.b32 {{.*}}, 1, 31, -1
// CHECK-NOT:     {{shfl|[dt]\.shared|bar\.}}
// CHECK:         selp.b32

#src = #ttg.linear<{register = [[32]], lane = [[1], [2], [4], [8], [16]], warp = [], block = []}>
#dst = #ttg.linear<{register = [[1]], lane = [[32], [2], [4], [8], [16]], warp = [], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @lane_and_register_change_places(%x: tensor<64xf32, #src>, %p: tensor<64x!tt.ptr<f32>, #dst>) {
    %y = ttg.convert_layout %x : tensor<64xf32, #src> -> tensor<64xf32, #dst>
    tt.store %p, %y : tensor<64x!tt.ptr<f32>, #dst>
    tt.return
  }
}

// -----

// Two 16-bit registers travel in one word.

// CHECK-LABEL: .entry halves_travel_together(
// CHECK-NOT:     {{[dt]\.shared|bar\.}}
// CHECK:         shfl.sync.idx.b32
// CHECK-NOT:     {{shfl|[dt]\.shared|bar\.}}
// CHECK-COUNT-2: st.global.b16

#src = #ttg.linear<{register = [[32]], lane = [[1], [2], [4], [8], [16]], warp = [], block = []}>
#dst = #ttg.linear<{register = [[32]], lane = [[2], [1], [4], [8], [16]], warp = [], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @halves_travel_together(%x: tensor<64xf16, #src>, %p: tensor<64x!tt.ptr<f16>, #dst>) {
    %y = ttg.convert_layout %x : tensor<64xf16, #src> -> tensor<64xf16, #dst>
    tt.store %p, %y : tensor<64x!tt.ptr<f16>, #dst>
    tt.return
  }
}

// -----

// An element of 64 bits takes two words.

// CHECK-LABEL: .entry doubles_take_two_words(
// CHECK-NOT:     {{[dt]\.shared|bar\.}}
// CHECK-COUNT-2: shfl.sync.idx.b32
// CHECK-NOT:     {{shfl|[dt]\.shared|bar\.}}
// CHECK:         st.global

#src = #ttg.linear<{register = [], lane = [[1], [2], [4], [8], [16]], warp = [], block = []}>
#dst = #ttg.linear<{register = [], lane = [[2], [1], [4], [8], [16]], warp = [], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @doubles_take_two_words(%x: tensor<32xf64, #src>, %p: tensor<32x!tt.ptr<f64>, #dst>) {
    %y = ttg.convert_layout %x : tensor<32xf64, #src> -> tensor<32xf64, #dst>
    tt.store %p, %y : tensor<32x!tt.ptr<f64>, #dst>
    tt.return
  }
}

// -----

// Both warps hold everything, so each warp serves itself.

// CHECK-LABEL: .entry warps_hold_copies(
// CHECK-NOT:     {{[dt]\.shared|bar\.}}
// CHECK:         shfl.sync.idx.b32
// CHECK-NOT:     {{shfl|[dt]\.shared|bar\.}}
// CHECK:         st.global.b32

#src = #ttg.linear<{register = [], lane = [[1], [2], [4], [8], [16]], warp = [[0]], block = []}>
#dst = #ttg.linear<{register = [], lane = [[2], [1], [4], [8], [16]], warp = [[0]], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 2 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @warps_hold_copies(%x: tensor<32xf32, #src>, %p: tensor<32x!tt.ptr<f32>, #dst>) {
    %y = ttg.convert_layout %x : tensor<32xf32, #src> -> tensor<32xf32, #dst>
    tt.store %p, %y : tensor<32x!tt.ptr<f32>, #dst>
    tt.return
  }
}
