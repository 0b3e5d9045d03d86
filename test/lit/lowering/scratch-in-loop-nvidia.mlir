// RUN: triton-linear-opt %s --split-input-file --linear-pipeline --no-assign --no-reductions --emit=llvm | FileCheck %s --check-prefix=SHARE
// RUN: triton-linear-opt %s --split-input-file --linear-pipeline --no-assign --no-reductions --emit=ptx | FileCheck %s

// Two conversions of a loop's body have scratch of 2 KiB each. Each needs its own barrier and no other: a warp that
// stores again has passed the other conversion's barrier since the last load.

// SHARE: ttg.shared = 4096 : i32

// CHECK-LABEL: .entry apart(
// CHECK:       $L__BB0_[[LOOP:[0-9]+]]:{{.*}}Loop Header
// CHECK-NOT:   {{ld\.shared|bar\.sync}}
// CHECK:       st.shared.v4.b32
// CHECK-NEXT:  bar.sync
// CHECK-NEXT:  ld.shared.v4.b32
// CHECK-NOT:   {{ld\.shared|bar\.sync}}
// CHECK:       st.shared.v4.b32
// CHECK-NEXT:  bar.sync
// CHECK-NEXT:  ld.shared.v4.b32
// CHECK-NOT:   {{[dt]\.shared|bar\.}}
// CHECK:       bra $L__BB0_[[LOOP]];
// CHECK-NOT:   {{[dt]\.shared|bar\.}}
// CHECK:       st.global.b32

#src = #ttg.linear<{register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [[128], [256]], block = []}>
#dst = #ttg.linear<{register = [[1], [2]], lane = [[128], [256], [4], [8], [16]], warp = [[32], [64]], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @apart(%x: tensor<512xf32, #src>, %p: tensor<512x!tt.ptr<f32>, #src>, %n: i32) {
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

// -----

// One conversion alone waits for its own loads of the turn before. Its one store needs no other barrier before it.

// SHARE: ttg.shared = 2048 : i32

// CHECK-LABEL: .entry alone(
// CHECK:       $L__BB0_[[LOOP:[0-9]+]]:{{.*}}Loop Header
// CHECK-NOT:   {{[dt]\.shared}}
// CHECK:       bar.sync
// CHECK-NEXT:  st.shared.v4.b32
// CHECK-NEXT:  bar.sync
// CHECK-NEXT:  ld.shared.v4.b32
// CHECK-NOT:   {{[dt]\.shared|bar\.}}
// CHECK:       bra $L__BB0_[[LOOP]];
// CHECK-NOT:   {{[dt]\.shared|bar\.}}
// CHECK:       ret;

#src = #ttg.linear<{register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [[128], [256]], block = []}>
#dst = #ttg.linear<{register = [[1], [2]], lane = [[128], [256], [4], [8], [16]], warp = [[32], [64]], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @alone(%x: tensor<512xf32, #src>, %p: tensor<512x!tt.ptr<f32>, #dst>, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %last = scf.for %i = %c0 to %n step %c1 iter_args(%v = %x) -> (tensor<512xf32, #src>) : i32 {
      %there = ttg.convert_layout %v : tensor<512xf32, #src> -> tensor<512xf32, #dst>
      tt.store %p, %there : tensor<512x!tt.ptr<f32>, #dst>
      %next = arith.addf %v, %x : tensor<512xf32, #src>
      scf.yield %next : tensor<512xf32, #src>
    }
    tt.return
  }
}

// -----

// Twice 32 KiB would leave room for fewer CTAs than there are registers for: the bytes are shared, and each
// conversion waits for the other's loads.

// SHARE: ttg.shared = 32768 : i32

// CHECK-LABEL: .entry shared_bytes(
// CHECK:       $L__BB0_[[LOOP:[0-9]+]]:{{.*}}Loop Header
// CHECK-NOT:   {{[dt]\.shared}}
// CHECK:       bar.sync
// CHECK-NOT:   {{ld\.shared|bar\.sync}}
// CHECK-COUNT-16: st.shared.v4.b32
// CHECK-NOT:   {{[dt]\.shared}}
// CHECK:       bar.sync
// CHECK-NOT:   {{st\.shared|bar\.}}
// CHECK-COUNT-16: ld.shared.v4.b32
// CHECK-NOT:   {{[dt]\.shared}}
// CHECK:       bar.sync
// CHECK-NOT:   {{ld\.shared|bar\.sync}}
// CHECK-COUNT-16: st.shared.v4.b32
// CHECK-NOT:   {{[dt]\.shared}}
// CHECK:       bar.sync
// CHECK-NOT:   {{st\.shared|bar\.}}
// CHECK-COUNT-16: ld.shared.v4.b32
// CHECK-NOT:   {{[dt]\.shared|bar\.}}
// CHECK:       bra $L__BB0_[[LOOP]];
// CHECK-NOT:   {{[dt]\.shared|bar\.}}
// CHECK:       ret;

#src = #ttg.linear<{register = [[1], [2], [512], [1024], [2048], [4096]], lane = [[4], [8], [16], [32], [64]], warp = [[128], [256]], block = []}>
#dst = #ttg.linear<{register = [[1], [2], [512], [1024], [2048], [4096]], lane = [[128], [256], [4], [8], [16]], warp = [[32], [64]], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @shared_bytes(%x: tensor<8192xf32, #src>, %p: tensor<8192x!tt.ptr<f32>, #src>, %n: i32) {
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %last = scf.for %i = %c0 to %n step %c1 iter_args(%v = %x) -> (tensor<8192xf32, #src>) : i32 {
      %there = ttg.convert_layout %v : tensor<8192xf32, #src> -> tensor<8192xf32, #dst>
      %sum = arith.addf %there, %there : tensor<8192xf32, #dst>
      %back = ttg.convert_layout %sum : tensor<8192xf32, #dst> -> tensor<8192xf32, #src>
      %next = arith.addf %back, %x : tensor<8192xf32, #src>
      scf.yield %next : tensor<8192xf32, #src>
    }
    tt.store %p, %last : tensor<8192x!tt.ptr<f32>, #src>
    tt.return
  }
}
