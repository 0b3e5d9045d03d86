// RUN: triton-linear-opt %s --linear-pipeline --no-assign --no-reductions --emit=llvm | FileCheck %s --check-prefix=SHARE
// RUN: triton-linear-opt %s --linear-pipeline --no-assign --no-reductions --emit=amdgcn | FileCheck %s

// Exchanges inside the waves of a loop use one buffer of which each wave has its part: no barrier at all.

// Nothing of one exchange is moved into the other: fences of the wave stand before and behind the stores of each.

// SHARE: ttg.shared = 16384 : i32
// SHARE-NOT: llvm.{{load|store|fence}}
// SHARE:     llvm.cond_br
// SHARE-NOT: llvm.{{load|store}}
// SHARE:     llvm.fence syncscope("wavefront")
// SHARE:     llvm.store
// SHARE-NOT: llvm.load
// SHARE:     llvm.fence syncscope("wavefront")
// SHARE:     llvm.load
// SHARE-NOT: llvm.store
// SHARE:     llvm.fence syncscope("wavefront")
// SHARE:     llvm.store
// SHARE-NOT: llvm.load
// SHARE:     llvm.fence syncscope("wavefront")
// SHARE:     llvm.load

// CHECK-LABEL: inside_waves:
// CHECK-NOT:   {{s_barrier|ds_}}
// CHECK:       .LBB0_[[LOOP:[0-9]+]]:{{.*}}Loop Header
// CHECK-NOT:   {{s_barrier|ds_read}}
// CHECK:       ds_write
// CHECK-NOT:   s_barrier
// CHECK:       ds_read
// CHECK-NOT:   s_barrier
// CHECK:       ds_write
// CHECK-NOT:   s_barrier
// CHECK:       ds_read
// CHECK-NOT:   s_barrier
// CHECK:       s_cbranch_scc1 .LBB0_[[LOOP]]
// CHECK-NOT:   s_barrier
// CHECK:       s_endpgm

#src = #ttg.linear<{register = [[1], [2], [4], [8]], lane = [[16], [32], [64], [128], [256], [512]], warp = [[1024], [2048]], block = []}>
#dst = #ttg.linear<{register = [[64], [128], [256], [512]], lane = [[1], [2], [4], [8], [16], [32]], warp = [[1024], [2048]], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "hip:gfx942", "ttg.threads-per-warp" = 64 : i32} {
  tt.func public @inside_waves(%x: tensor<4096xf32, #src>, %p: tensor<4096x!tt.ptr<f32>, #src>, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %last = scf.for %i = %c0 to %n step %c1 iter_args(%v = %x) -> (tensor<4096xf32, #src>) : i32 {
      %there = ttg.convert_layout %v : tensor<4096xf32, #src> -> tensor<4096xf32, #dst>
      %sum = arith.addf %there, %there : tensor<4096xf32, #dst>
      %back = ttg.convert_layout %sum : tensor<4096xf32, #dst> -> tensor<4096xf32, #src>
      %next = arith.addf %back, %x : tensor<4096xf32, #src>
      scf.yield %next : tensor<4096xf32, #src>
    }
    tt.store %p, %last : tensor<4096x!tt.ptr<f32>, #src>
    tt.return
  }
}
