// RUN: triton-linear-opt %s --split-input-file --linear-pipeline --no-assign --no-reductions --emit=ptx | FileCheck %s

// A transpose of 8 registers with 8 lanes inside each warp would take more shuffles than memory costs. Four registers
// are stored at once. Each warp has its own part of the scratch, and waits for nobody else.

// CHECK-LABEL: .entry transpose_inside_warps(
// CHECK-NOT:     {{shfl|bar\.sync}}
// CHECK:         bar.warp.sync
// CHECK-NOT:     {{shfl|bar\.|ld\.}}
// CHECK-COUNT-2: st.shared.v4.b32
// CHECK-NEXT:    bar.warp.sync
// CHECK-COUNT-8: ld.shared.b32
// CHECK-NOT:     {{shfl|[dt]\.shared|bar\.}}
// CHECK:         st.global.b32

#src = #ttg.linear<{register = [[32], [64], [128]], lane = [[1], [2], [4], [8], [16]], warp = [[256]], block = []}>
#dst = #ttg.linear<{register = [[1], [2], [4]], lane = [[8], [16], [32], [64], [128]], warp = [[256]], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 2 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @transpose_inside_warps(%x: tensor<512xf32, #src>, %p: tensor<512x!tt.ptr<f32>, #dst>) {
    %y = ttg.convert_layout %x : tensor<512xf32, #src> -> tensor<512xf32, #dst>
    tt.store %p, %y : tensor<512x!tt.ptr<f32>, #dst>
    tt.return
  }
}

// -----

// Elements cross warps. The four registers of a thread stay together, so they move as one vector of 128 bits.

// CHECK-LABEL: .entry vectors_cross_warps(
// CHECK-NOT:     {{shfl|bar\.sync}}
// CHECK:         st.shared.v4.b32
// CHECK-NOT:     {{shfl|[dt]\.shared}}
// CHECK:         bar.sync
// CHECK-NOT:     {{shfl|bar\.}}
// CHECK:         ld.shared.v4.b32
// CHECK-NOT:     {{shfl|[dt]\.shared|bar\.}}
// CHECK:         st.global.b32

#src = #ttg.linear<{register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [[128], [256]], block = []}>
#dst = #ttg.linear<{register = [[1], [2]], lane = [[128], [256], [4], [8], [16]], warp = [[32], [64]], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @vectors_cross_warps(%x: tensor<512xf32, #src>, %p: tensor<512x!tt.ptr<f32>, #dst>) {
    %y = ttg.convert_layout %x : tensor<512xf32, #src> -> tensor<512xf32, #dst>
    tt.store %p, %y : tensor<512x!tt.ptr<f32>, #dst>
    tt.return
  }
}

// -----

// Pairs that are stored together come from two words each. How they are put together is no secret to the compiler, which
// here finds them where the additions left them: a permute would hide it.

// CHECK-LABEL: .entry halves_of_two_words(
// CHECK-NOT:     prmt
// CHECK:         stmatrix.sync.aligned.m8n8.x2.shared.b16
// CHECK-NOT:     prmt
// CHECK:         ld.shared.v4.b16
// CHECK-NOT:     prmt
// CHECK:         st.global

#src = #ttg.linear<{register = [[128], [1]], lane = [[2], [4], [8], [16], [32]], warp = [[64]], block = []}>
#dst = #ttg.linear<{register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [[128]], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 2 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @halves_of_two_words(%x: tensor<256xf32, #src>, %p: tensor<256x!tt.ptr<f16>, #dst>) {
    %n = arith.truncf %x : tensor<256xf32, #src> to tensor<256xf16, #src>
    %y = ttg.convert_layout %n : tensor<256xf16, #src> -> tensor<256xf16, #dst>
    tt.store %p, %y : tensor<256x!tt.ptr<f16>, #dst>
    tt.return
  }
}
