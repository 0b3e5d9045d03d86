// RUN: triton-linear-opt %s --linear-pipeline --emit=llvm | FileCheck %s --check-prefix=SHARE
// RUN: triton-linear-opt %s --linear-pipeline --emit=ptx | FileCheck %s

// Two conversions of a loop's body have the same bytes as scratch. Triton's analysis puts a barrier between what one
// reads and what the next writes, also where the next is the first one of another turn of the loop.

// SHARE: ttg.shared = 2048 : i32

// CHECK-LABEL: .entry kernel(
// CHECK:       $L__BB0_[[LOOP:[0-9]+]]:{{.*}}Loop Header
// CHECK-NOT:   {{[dt]\.shared}}
// CHECK:       bar.sync
// CHECK-NEXT:  st.shared.v4.b32
// CHECK-NEXT:  bar.sync
// CHECK-NEXT:  ld.shared.v4.b32
// CHECK-NOT:   {{[dt]\.shared}}
// CHECK:       bar.sync
// CHECK-NEXT:  st.shared.v4.b32
// CHECK-NEXT:  bar.sync
// CHECK-NEXT:  ld.shared.v4.b32
// CHECK-NOT:   {{[dt]\.shared|bar\.}}
// CHECK:       bra $L__BB0_[[LOOP]];
// CHECK-NOT:   {{[dt]\.shared|bar\.}}
// CHECK:       st.global.b32

#src = #ttg.linear<{register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [[128], [256]], block = []}>
#dst = #ttg.linear<{register = [[1], [2]], lane = [[128], [256], [4], [8], [16]], warp = [[32], [64]], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @kernel(%x: tensor<512xf32, #src>, %p: tensor<512x!tt.ptr<f32>, #src>, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %last = scf.for %i = %c0 to %n step %c1 iter_args(%v = %x) -> (tensor<512xf32, #src>) : i32 {
      %there = ttg.convert_layout %v : tensor<512xf32, #src> -> tensor<512xf32, #dst>
      %sum = arith.addf %there, %there : tensor<512xf32, #dst>
      %back = ttg.convert_layout %sum : tensor<512xf32, #dst> -> tensor<512xf32, #src>
      %next = arith.addf %back, %x : tensor<512xf32, #src>
      scf.yield %next : tensor<512xf32, #src>
    }
    tt.store %p, %last : tensor<512x!tt.ptr<f32>, #src>
    tt.return
  }
}
