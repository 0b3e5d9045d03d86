// RUN: triton-linear-opt %s --mlir-print-op-generic --split-input-file --linear-split-reductions 2>&1 | FileCheck %s
// RUN: triton-linear-opt %s --mlir-print-op-generic --split-input-file --linear-split-reductions --linear-pipeline --no-assign --no-reductions 2>&1 | FileCheck %s --check-prefix=LOWERED

// Rows of 64 over four warps, whose bits are the highest two of the column:
//
//   column    5    4    3    2    1    0
//   in     warp1 warp0 lane1 lane0 reg1 reg0

#rows = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [1, 4], order = [1, 0]}>
#line = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  // The result is wanted in a layout of its own: partial results go there, and its conversion moves nothing.
  // CHECK: remark: the reduction is split: results of 4 warps converted; {{.*}} clocks before, {{.*}} after
  // CHECK: ll.split
  // CHECK-LABEL: sym_name = "rows"
  // CHECK: [[CUT:%.*]] = "tt.reshape"(%arg0){{.*}} -> tensor<8x2x2x16xf32
  // CHECK: [[INSIDE:%.*]] = "tt.reduce"([[CUT]]) <{axis = 3 : i32}>
  // CHECK: [[GATHERED:%.*]] = "ttg.convert_layout"([[INSIDE]]) {ll.partials}
  // CHECK: [[HALF:%.*]] = "tt.reduce"([[GATHERED]]) <{axis = 1 : i32}>
  // CHECK: [[WHOLE:%.*]] = "tt.reduce"([[HALF]]) <{axis = 1 : i32}>
  // CHECK: "ttg.convert_layout"([[WHOLE]]) : {{.*}} -> tensor<8xf32, #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32]
  // CHECK-NOT: "tt.reduce"

  // LOWERED-LABEL: sym_name = "rows"
  // LOWERED: "tt.call"({{.*}}) {callee = @__ll_cvt
  // LOWERED-NOT: "tt.call"
  // LOWERED-LABEL: sym_name = "scalar"
  tt.func public @rows(%x: tensor<8x64xf32, #rows>, %p: tensor<8x!tt.ptr<f32>, #line>) {
    %sum = "tt.reduce"(%x) <{axis = 1 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tt.reduce.return %c : f32
    }) : (tensor<8x64xf32, #rows>) -> tensor<8xf32, #ttg.slice<{dim = 1, parent = #rows}>>
    %moved = ttg.convert_layout %sum : tensor<8xf32, #ttg.slice<{dim = 1, parent = #rows}>> -> tensor<8xf32, #line>
    tt.store %p, %moved : tensor<8x!tt.ptr<f32>, #line>
    tt.return
  }
}

// -----

// A scalar, from warps whose bits lie below those of registers: these are put behind.

#wide = #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [2], order = [0]}>

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 2 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  // CHECK-LABEL: sym_name = "scalar"
  // CHECK: "tt.reshape"(%arg0){{.*}} -> tensor<4x2x64xf32
  // CHECK: "tt.trans"(%0) {order = array<i32: 1, 0, 2>
  // CHECK: "tt.reshape"{{.*}} -> tensor<2x256xf32
  // CHECK: "tt.reduce"{{.*}} <{axis = 1 : i32}>
  // CHECK: "ttg.convert_layout"
  // CHECK: [[SCALAR:%.*]] = "tt.reduce"{{.*}} <{axis = 0 : i32}>
  // CHECK: -> f32
  // CHECK: "tt.store"(%arg1, [[SCALAR]])
  tt.func public @scalar(%x: tensor<512xf32, #wide>, %p: !tt.ptr<f32>) {
    %sum = "tt.reduce"(%x) <{axis = 0 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tt.reduce.return %c : f32
    }) : (tensor<512xf32, #wide>) -> f32
    tt.store %p, %sum : !tt.ptr<f32>
    tt.return
  }
}

// -----

// Warps along the other dimension alone: nothing goes between them.

#inside = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  // CHECK-LABEL: sym_name = "inside"
  // CHECK-NOT: "tt.reshape"
  // CHECK: "tt.reduce"(%arg0) <{axis = 1 : i32}>
  tt.func public @inside(%x: tensor<32x64xf32, #inside>, %p: tensor<32x!tt.ptr<f32>, #ttg.slice<{dim = 1, parent = #inside}>>) {
    %sum = "tt.reduce"(%x) <{axis = 1 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tt.reduce.return %c : f32
    }) : (tensor<32x64xf32, #inside>) -> tensor<32xf32, #ttg.slice<{dim = 1, parent = #inside}>>
    tt.store %p, %sum : tensor<32x!tt.ptr<f32>, #ttg.slice<{dim = 1, parent = #inside}>>
    tt.return
  }
}
