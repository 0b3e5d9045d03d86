// RUN: triton-linear-opt %s --split-input-file --linear-pipeline --no-assign --no-reductions --emit=ptx | FileCheck %s

// The row of eight is in eight lanes: each asks the one that its index names.
//   lane      0 1 2 3 4 5 6 7    8 9 ...
//   row, column   0,0 ... 0,7    1,0 ...

// CHECK-LABEL: .entry columns_in_lanes(
// CHECK-NOT:     {{[dt]\.shared|bar\.}}
// CHECK:         shfl.sync.idx.b32
// CHECK-NOT:     {{shfl|[dt]\.shared|bar\.}}
// CHECK:         st.global

#l = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [4, 8], warpsPerCTA = [1, 1], order = [1, 0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @columns_in_lanes(%x: tensor<4x8xf32, #l>, %i: tensor<4x8xi32, #l>, %p: tensor<4x8x!tt.ptr<f32>, #l>) {
    %y = tt.gather %x[%i] {axis = 1 : i32} : (tensor<4x8xf32, #l>, tensor<4x8xi32, #l>) -> tensor<4x8xf32, #l>
    tt.store %p, %y : tensor<4x8x!tt.ptr<f32>, #l>
    tt.return
  }
}

// -----

// The row of two is in one thread: a select for each of its two results, and nothing leaves the lane.

// CHECK-LABEL: .entry columns_in_registers(
// CHECK-NOT:     {{shfl|[dt]\.shared|bar\.}}
// CHECK-COUNT-2: selp.
// CHECK-NOT:     {{shfl|selp|[dt]\.shared|bar\.}}
// CHECK:         st.global

#l = #ttg.blocked<{sizePerThread = [1, 2], threadsPerWarp = [32, 1], warpsPerCTA = [1, 1], order = [1, 0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @columns_in_registers(%x: tensor<32x2xi32, #l>, %i: tensor<32x2xi32, #l>, %p: tensor<32x2x!tt.ptr<i32>, #l>) {
    %y = tt.gather %x[%i] {axis = 1 : i32} : (tensor<32x2xi32, #l>, tensor<32x2xi32, #l>) -> tensor<32x2xi32, #l>
    tt.store %p, %y : tensor<32x2x!tt.ptr<i32>, #l>
    tt.return
  }
}

// -----

// Four columns in one thread, as two words of two registers. A permute takes what the index names out of both.

// CHECK-LABEL: .entry four_in_two_words(
// CHECK-NOT:     {{shfl|[dt]\.shared|bar\.}}
// CHECK-COUNT-4: prmt.b32
// CHECK-NOT:     {{shfl|selp|prmt|[dt]\.shared|bar\.}}
// CHECK:         st.global

#l = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [32, 1], warpsPerCTA = [1, 1], order = [1, 0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @four_in_two_words(%x: tensor<32x4xf16, #l>, %i: tensor<32x4xi8, #l>, %p: tensor<32x4x!tt.ptr<f16>, #l>) {
    %y = tt.gather %x[%i] {axis = 1 : i32} : (tensor<32x4xf16, #l>, tensor<32x4xi8, #l>) -> tensor<32x4xf16, #l>
    tt.store %p, %y : tensor<32x4x!tt.ptr<f16>, #l>
    tt.return
  }
}

// -----

// Conversions to the layout that Triton gathers in, one column a lane, are not worth it: all three go, and nothing
// leaves its thread.

// CHECK-LABEL: .entry conversions_around(
// CHECK-NOT:     {{shfl|[dt]\.shared|bar\.}}
// CHECK:         selp.
// CHECK-NOT:     {{shfl|[dt]\.shared|bar\.}}
// CHECK:         st.global

#own = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [32, 1], warpsPerCTA = [4, 1], order = [1, 0]}>
#theirs = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @conversions_around(%x: tensor<128x4xf32, #own>, %i: tensor<128x4xi32, #own>, %p: tensor<128x4x!tt.ptr<f32>, #own>) {
    %a = ttg.convert_layout %x : tensor<128x4xf32, #own> -> tensor<128x4xf32, #theirs>
    %b = ttg.convert_layout %i : tensor<128x4xi32, #own> -> tensor<128x4xi32, #theirs>
    %c = tt.gather %a[%b] {axis = 1 : i32, efficient_layout} : (tensor<128x4xf32, #theirs>, tensor<128x4xi32, #theirs>) -> tensor<128x4xf32, #theirs>
    %y = ttg.convert_layout %c : tensor<128x4xf32, #theirs> -> tensor<128x4xf32, #own>
    tt.store %p, %y : tensor<128x4x!tt.ptr<f32>, #own>
    tt.return
  }
}
