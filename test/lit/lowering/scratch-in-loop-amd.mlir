// RUN: triton-linear-opt %s --split-input-file --linear-pipeline --no-assign --no-reductions --emit=llvm | FileCheck %s --check-prefix=SHARE
// RUN: triton-linear-opt %s --split-input-file --linear-pipeline --no-assign --no-reductions --emit=amdgcn | FileCheck %s

// Two conversions of a loop's body have scratch of 4 KiB each. Each needs its own barrier and no other: a wave that
// stores again has passed the other conversion's barrier since the last load. What follows the body is the next
// iteration where LLVM unrolled the loop, else its end.

// SHARE: ttg.shared = 8192 : i32

// CHECK-LABEL: apart:
// CHECK:       .LBB0_{{.*}}Loop Header
// CHECK-NOT:   {{ds_read|s_barrier}}
// CHECK:       ds_write_b128
// CHECK-NEXT:  s_waitcnt lgkmcnt(0)
// CHECK-NEXT:  s_barrier
// CHECK-NOT:   {{ds_write|s_barrier}}
// CHECK:       ds_read_b128
// CHECK-NOT:   {{ds_read|s_barrier}}
// CHECK:       ds_write_b128
// CHECK-NEXT:  s_waitcnt lgkmcnt(0)
// CHECK-NEXT:  s_barrier
// CHECK-NOT:   {{ds_write|s_barrier}}
// CHECK:       ds_read_b128
// CHECK-NOT:   {{ds_read|s_barrier}}
// CHECK:       {{ds_write_b128|s_cbranch_scc1}}

#src = #ttg.linear<{register = [[1], [2]], lane = [[4], [8], [16], [32], [64], [128]], warp = [[256], [512]], block = []}>
#dst = #ttg.linear<{register = [[1], [2]], lane = [[256], [512], [4], [8], [16], [32]], warp = [[64], [128]], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "hip:gfx942", "ttg.threads-per-warp" = 64 : i32} {
  tt.func public @apart(%x: tensor<1024xf32, #src>, %p: tensor<1024x!tt.ptr<f32>, #src>, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %last = scf.for %i = %c0 to %n step %c1 iter_args(%v = %x) -> (tensor<1024xf32, #src>) : i32 {
      %there = ttg.convert_layout %v : tensor<1024xf32, #src> -> tensor<1024xf32, #dst>
      %sum = arith.addf %there, %there : tensor<1024xf32, #dst>
      %back = ttg.convert_layout %sum : tensor<1024xf32, #dst> -> tensor<1024xf32, #src>
      %next = arith.addf %back, %x : tensor<1024xf32, #src>
      scf.yield %next : tensor<1024xf32, #src>
    }
    tt.store %p, %last : tensor<1024x!tt.ptr<f32>, #src>
    tt.return
  }
}

// -----

// Twice 8 KiB would leave room for fewer workgroups than there are registers for: the bytes are shared, and each
// conversion waits for the other's loads.

// SHARE: ttg.shared = 8192 : i32

// CHECK-LABEL: shared_bytes:
// CHECK:       .LBB0_{{.*}}Loop Header
// CHECK-NOT:   ds_
// CHECK:       s_barrier
// CHECK-NOT:   {{ds_read|s_barrier}}
// CHECK-COUNT-2: ds_write_b128
// CHECK-NOT:   ds_
// CHECK:       s_barrier
// CHECK-NOT:   {{ds_write|s_barrier}}
// CHECK-COUNT-2: ds_read_b128
// CHECK-NOT:   ds_
// CHECK:       s_barrier
// CHECK-NOT:   {{ds_read|s_barrier}}
// CHECK-COUNT-2: ds_write_b128
// CHECK-NOT:   ds_
// CHECK:       s_barrier
// CHECK-NOT:   {{ds_write|s_barrier}}
// CHECK-COUNT-2: ds_read_b128
// CHECK-NOT:   ds_
// CHECK:       {{s_barrier|s_cbranch_scc1}}

#src = #ttg.linear<{register = [[1], [2], [1024]], lane = [[4], [8], [16], [32], [64], [128]], warp = [[256], [512]], block = []}>
#dst = #ttg.linear<{register = [[1], [2], [1024]], lane = [[256], [512], [4], [8], [16], [32]], warp = [[64], [128]], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "hip:gfx942", "ttg.threads-per-warp" = 64 : i32} {
  tt.func public @shared_bytes(%x: tensor<2048xf32, #src>, %p: tensor<2048x!tt.ptr<f32>, #src>, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %last = scf.for %i = %c0 to %n step %c1 iter_args(%v = %x) -> (tensor<2048xf32, #src>) : i32 {
      %there = ttg.convert_layout %v : tensor<2048xf32, #src> -> tensor<2048xf32, #dst>
      %sum = arith.addf %there, %there : tensor<2048xf32, #dst>
      %back = ttg.convert_layout %sum : tensor<2048xf32, #dst> -> tensor<2048xf32, #src>
      %next = arith.addf %back, %x : tensor<2048xf32, #src>
      scf.yield %next : tensor<2048xf32, #src>
    }
    tt.store %p, %last : tensor<2048x!tt.ptr<f32>, #src>
    tt.return
  }
}
