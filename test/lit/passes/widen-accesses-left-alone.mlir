// RUN: triton-linear-opt %s --split-input-file --linear-widen-accesses --verify-diagnostics
// RUN: triton-linear-opt %s --mlir-print-op-generic --split-input-file --linear-widen-accesses 2>&1 | FileCheck %s

// Rows of two bytes, of which a thread has two: nothing says that they are next to each other in memory.
// CHECK-LABEL: sym_name = "rows_apart"
// CHECK-NOT: tt.reshape

// CHECK-NOT: ll.widened

#l = #ttg.linear<{register = [[0, 1], [1, 0]], lane = [[2, 0], [4, 0], [8, 0], [16, 0], [32, 0]], warp = [], block = []}>

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"} {
tt.func @rows_apart(%p: tensor<64x2x!tt.ptr<i8>, #l>) -> tensor<64x2xi8, #l> {
  %x = tt.load %p : tensor<64x2x!tt.ptr<i8>, #l>
  tt.return %x : tensor<64x2xi8, #l>
}
}

// -----

// One after another, but to be loaded as often as it is written.
// CHECK-LABEL: sym_name = "volatile"
// CHECK-NOT: tt.reshape

#row = #ttg.linear<{register = [[2], [1]], lane = [[4], [8], [16], [32], [64]], warp = [], block = []}>

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"} {
tt.func @volatile(%from: !tt.ptr<i8> {tt.divisibility = 16 : i32}) -> tensor<128xi8, #row> {
  %at = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32, #row>
  %0 = tt.splat %from : !tt.ptr<i8> -> tensor<128x!tt.ptr<i8>, #row>
  %p = tt.addptr %0, %at : tensor<128x!tt.ptr<i8>, #row>, tensor<128xi32, #row>
  %x = tt.load %p {isVolatile = true} : tensor<128x!tt.ptr<i8>, #row>
  tt.return %x : tensor<128xi8, #row>
}
}

// -----

// Several CTAs a cluster.
// CHECK-LABEL: sym_name = "clusters"
// CHECK-NOT: ttg.convert_layout

#row = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0], CGALayout = [[0]]}>

module attributes {"ttg.num-ctas" = 2 : i32, "ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"} {
tt.func @clusters(%p: tensor<128x!tt.ptr<i8>, #row>) -> tensor<128xi8, #row> {
  %x = tt.load %p : tensor<128x!tt.ptr<i8>, #row>
  tt.return %x : tensor<128xi8, #row>
}
}
