// RUN: triton-linear-opt %s --linear-select-lowering=scratch-limit=16384 --linear-outline-conversions --emit=ptx | FileCheck %s

// 64 KB in 16 KB of scratch: four rounds, with a barrier inside each round and one between rounds.

// CHECK-LABEL: .entry rounds_share_scratch(
// CHECK-COUNT-7: bar.sync
// CHECK-NOT:     bar.sync
// CHECK:         st.global.b32

#src = #ttg.linear<{register = [[1], [2], [2048], [4096], [8192]], lane = [[4], [8], [16], [32], [64]], warp = [[128], [256], [512], [1024]], block = []}>
#dst = #ttg.linear<{register = [[1], [2], [2048], [4096], [8192]], lane = [[128], [256], [4], [8], [16]], warp = [[32], [64], [512], [1024]], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 16 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @rounds_share_scratch(%x: tensor<16384xf32, #src>, %p: tensor<16384x!tt.ptr<f32>, #dst>) {
    %y = ttg.convert_layout %x : tensor<16384xf32, #src> -> tensor<16384xf32, #dst>
    tt.store %p, %y : tensor<16384x!tt.ptr<f32>, #dst>
    tt.return
  }
}
