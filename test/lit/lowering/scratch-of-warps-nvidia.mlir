// RUN: triton-linear-opt %s --split-input-file --linear-pipeline --no-assign --no-reductions --emit=llvm | FileCheck %s --check-prefix=SHARE
// RUN: triton-linear-opt %s --split-input-file --linear-pipeline --no-assign --no-reductions --emit=ptx | FileCheck %s

// Exchanges inside the warps of a loop: both use one buffer of which each warp has its part, nobody else uses those
// bytes, and no barrier of the CTA is needed.

// SHARE: ttg.shared = 16384 : i32

// CHECK-LABEL: .entry inside_warps(
// CHECK-NOT:   {{bar\.sync|[dt]\.shared}}
// CHECK:       $L__BB0_[[LOOP:[0-9]+]]:{{.*}}Loop Header
// CHECK-NOT:   {{bar\.sync|[dt]\.shared}}
// CHECK:       bar.warp.sync
// CHECK-NOT:   {{bar\.|ld\.shared}}
// CHECK-COUNT-8: st.shared.v4.b32
// CHECK-NOT:   {{bar\.sync|[dt]\.shared}}
// CHECK:       bar.warp.sync
// CHECK-NOT:   {{bar\.|st\.shared}}
// CHECK-COUNT-32: ld.shared.b32
// CHECK-NOT:   {{bar\.sync|[dt]\.shared}}
// CHECK:       bar.warp.sync
// CHECK-NOT:   {{bar\.|ld\.shared}}
// CHECK-COUNT-8: st.shared.v4.b32
// CHECK-NOT:   {{bar\.sync|[dt]\.shared}}
// CHECK:       bar.warp.sync
// CHECK-NOT:   {{bar\.|st\.shared}}
// CHECK-COUNT-32: ld.shared.b32
// CHECK-NOT:   {{bar\.|[dt]\.shared}}
// CHECK:       bra $L__BB0_[[LOOP]];
// CHECK-NOT:   {{bar\.|[dt]\.shared}}
// CHECK:       ret;

#src = #ttg.linear<{register = [[1], [2], [4], [8], [16]], lane = [[32], [64], [128], [256], [512]], warp = [[1024], [2048]], block = []}>
#dst = #ttg.linear<{register = [[32], [64], [128], [256], [512]], lane = [[1], [2], [4], [8], [16]], warp = [[1024], [2048]], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @inside_warps(%x: tensor<4096xf32, #src>, %p: tensor<4096x!tt.ptr<f32>, #src>, %n: i32) {
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

// -----

// A buffer of the kernel's own before, and no loop: the exchange takes its bytes after a barrier of the CTA, rather
// than more memory.

// SHARE: ttg.shared = 16384 : i32

// CHECK-LABEL: .entry beside_a_buffer(
// CHECK-NOT:   bar.sync
// CHECK:       st.shared
// CHECK-NOT:   bar.warp
// CHECK:       bar.sync
// CHECK-NOT:   bar.
// CHECK:       ld.shared
// CHECK:       bar.sync
// CHECK-NOT:   {{bar\.sync|[dt]\.shared}}
// CHECK:       bar.warp.sync
// CHECK-NOT:   {{bar\.|ld\.shared}}
// CHECK:       st.shared
// CHECK-NOT:   {{bar\.sync|ld\.shared}}
// CHECK:       bar.warp.sync
// CHECK-NOT:   bar.
// CHECK-COUNT-32: ld.shared.b32
// CHECK-NOT:   {{bar\.|ld\.shared}}
// CHECK:       ret;

#src = #ttg.linear<{register = [[1], [2], [4], [8], [16]], lane = [[32], [64], [128], [256], [512]], warp = [[1024], [2048]], block = []}>
#dst = #ttg.linear<{register = [[32], [64], [128], [256], [512]], lane = [[1], [2], [4], [8], [16]], warp = [[1024], [2048]], block = []}>
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @beside_a_buffer(%x: tensor<4096xf32, #src>, %h: tensor<4096xi8, #src>, %p: tensor<4096x!tt.ptr<f32>, #dst>, %q: tensor<4096x!tt.ptr<i8>, #dst>) {
    %b = ttg.local_alloc %h : (tensor<4096xi8, #src>) -> !ttg.memdesc<4096xi8, #shared, #smem>
    %b1 = ttg.local_load %b : !ttg.memdesc<4096xi8, #shared, #smem> -> tensor<4096xi8, #dst>
    tt.store %q, %b1 : tensor<4096x!tt.ptr<i8>, #dst>
    %c = ttg.convert_layout %x : tensor<4096xf32, #src> -> tensor<4096xf32, #dst>
    tt.store %p, %c : tensor<4096x!tt.ptr<f32>, #dst>
    tt.return
  }
}
