// RUN: triton-linear-opt %s --mlir-print-op-generic --linear-pipeline --exact --remarks 2>&1 | FileCheck %s
// RUN: triton-linear-opt %s --mlir-print-op-generic --linear-pipeline --remarks 2>&1 | FileCheck %s --check-prefix=DEFAULT
// RUN: triton-linear-opt %s --mlir-print-op-generic --linear-split-reductions=exact=true 2>&1 | FileCheck %s --check-prefix=SPLIT

#rows = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [1, 4], order = [1, 0]}>
#across = #ttg.blocked<{sizePerThread = [4, 1], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [0, 1]}>
#line = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  // Floats would be added in another order, if each warp's sum were converted.
  // CHECK: remark: the reduction stays as it is: in another order it would give other bits
  // CHECK: remark: the reduction is split: results of 4 warps converted
  // CHECK: remark: conversion left to Triton: where it is lowered decides about bits of what is added to it
  // DEFAULT-NOT: the reduction stays as it is
  // DEFAULT-NOT: conversion left to Triton
  // SPLIT: remark: the reduction stays as it is: in another order it would give other bits

  // CHECK-LABEL: sym_name = "floats"
  // CHECK-NOT: tt.reshape
  // CHECK: "tt.reduce"(%arg0) <{axis = 1 : i32}>
  // DEFAULT-LABEL: sym_name = "floats"
  // DEFAULT: "tt.reshape"(%arg0)
  // SPLIT-LABEL: sym_name = "floats"
  // SPLIT-NOT: tt.reshape
  // SPLIT-LABEL: sym_name = "integers"
  // SPLIT: "tt.reshape"(%arg0)
  tt.func public @floats(%x: tensor<8x64xf32, #rows>, %p: tensor<8x!tt.ptr<f32>, #line>) {
    %sum = "tt.reduce"(%x) <{axis = 1 : i32}> ({
    ^bb0(%a: f32, %b: f32):
      %c = arith.addf %a, %b : f32
      tt.reduce.return %c : f32
    }) : (tensor<8x64xf32, #rows>) -> tensor<8xf32, #ttg.slice<{dim = 1, parent = #rows}>>
    %y = ttg.convert_layout %sum : tensor<8xf32, #ttg.slice<{dim = 1, parent = #rows}>> -> tensor<8xf32, #line>
    tt.store %p, %y : tensor<8x!tt.ptr<f32>, #line>
    tt.return
  }

  // CHECK-LABEL: sym_name = "integers"
  // CHECK: "tt.reshape"(%arg0)
  // CHECK: callee = @__ll_cvt
  tt.func public @integers(%x: tensor<8x64xi32, #rows>, %p: tensor<8x!tt.ptr<i32>, #line>) {
    %sum = "tt.reduce"(%x) <{axis = 1 : i32}> ({
    ^bb0(%a: i32, %b: i32):
      %c = arith.addi %a, %b : i32
      tt.reduce.return %c : i32
    }) : (tensor<8x64xi32, #rows>) -> tensor<8xi32, #ttg.slice<{dim = 1, parent = #rows}>>
    %y = ttg.convert_layout %sum : tensor<8xi32, #ttg.slice<{dim = 1, parent = #rows}>> -> tensor<8xi32, #line>
    tt.store %p, %y : tensor<8x!tt.ptr<i32>, #line>
    tt.return
  }

  // A conversion between a product and a sum keeps LLVM from making one operation of both.
  // CHECK-LABEL: sym_name = "product_and_sum"
  // CHECK: [[PRODUCT:%.*]] = "arith.mulf"
  // CHECK: "ttg.convert_layout"([[PRODUCT]]) {{.*}}ll.stock
  // CHECK: "arith.addf"
  // DEFAULT-LABEL: sym_name = "product_and_sum"
  // DEFAULT: "tt.call"({{.*}}) {callee = @__ll_cvt
  tt.func public @product_and_sum(%x: tensor<64x64xf32, #rows>, %y: tensor<64x64xf32, #across>, %p: tensor<64x64x!tt.ptr<f32>, #across>) {
    %product = arith.mulf %x, %x : tensor<64x64xf32, #rows>
    %moved = ttg.convert_layout %product : tensor<64x64xf32, #rows> -> tensor<64x64xf32, #across>
    %sum = arith.addf %moved, %y : tensor<64x64xf32, #across>
    tt.store %p, %sum : tensor<64x64x!tt.ptr<f32>, #across>
    tt.return
  }
}
