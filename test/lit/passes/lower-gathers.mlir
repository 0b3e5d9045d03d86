// RUN: triton-linear-opt %s --mlir-print-op-generic --linear-lower-gathers --verify-diagnostics
// RUN: triton-linear-opt %s --mlir-print-op-generic --linear-lower-gathers | FileCheck %s

#lanes = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [4, 8], warpsPerCTA = [2, 1], order = [1, 0]}>
#across = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [8, 4], warpsPerCTA = [1, 2], order = [1, 0]}>
#own = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [32, 1], warpsPerCTA = [2, 1], order = [1, 0]}>
#spread = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [4, 8], warpsPerCTA = [2, 1], order = [1, 0]}>

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 2 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {

// Gathers of the same types share a stub.
// CHECK-LABEL: sym_name = "inside_warps"
// CHECK: [[FIRST:%.*]] = "tt.call"(%arg0, %arg1) {callee = @__ll_gather_0, ll.gather}
// CHECK: "tt.call"([[FIRST]], %arg1) {callee = @__ll_gather_0, ll.gather}
tt.func @inside_warps(%x: tensor<8x8xf32, #lanes>, %i: tensor<8x8xi32, #lanes>) -> tensor<8x8xf32, #lanes> {
  %0 = tt.gather %x[%i] {axis = 1 : i32} : (tensor<8x8xf32, #lanes>, tensor<8x8xi32, #lanes>) -> tensor<8x8xf32, #lanes>
  %1 = tt.gather %0[%i] {axis = 1 : i32} : (tensor<8x8xf32, #lanes>, tensor<8x8xi32, #lanes>) -> tensor<8x8xf32, #lanes>
  tt.return %1 : tensor<8x8xf32, #lanes>
}

// Columns of four and on are in the other warp: that takes memory, and is Triton's.
// CHECK-LABEL: sym_name = "across_warps"
// CHECK: "tt.gather"(%arg0, %arg1) <{axis = 1 : i32}> {ll.stock = "index bit 4 names an element of another warp"}
tt.func @across_warps(%x: tensor<8x8xf32, #across>, %i: tensor<8x8xi32, #across>) -> tensor<8x8xf32, #across> {
  // expected-remark@below {{gather left to Triton: index bit 4 names an element of another warp}}
  %0 = tt.gather %x[%i] {axis = 1 : i32} : (tensor<8x8xf32, #across>, tensor<8x8xi32, #across>) -> tensor<8x8xf32, #across>
  tt.return %0 : tensor<8x8xf32, #across>
}

// Elements of four bits have no register form here.
// CHECK-LABEL: sym_name = "too_wide"
// CHECK: "tt.gather"(%arg0, %arg1) <{axis = 1 : i32}> {ll.stock = "element type 'i4' has no register form{{[^"]*}}"}
tt.func @too_wide(%x: tensor<8x8xi4, #lanes>, %i: tensor<8x8xi32, #lanes>) -> tensor<8x8xi4, #lanes> {
  // expected-remark@below {{gather left to Triton: element type 'i4' has no register form}}
  %0 = tt.gather %x[%i] {axis = 1 : i32} : (tensor<8x8xi4, #lanes>, tensor<8x8xi32, #lanes>) -> tensor<8x8xi4, #lanes>
  tt.return %0 : tensor<8x8xi4, #lanes>
}

// The result is converted for who wants it as it was; one conversion of three is left.
// CHECK-LABEL: sym_name = "before_conversions"
// CHECK-NOT: ttg.convert_layout
// CHECK: [[GATHERED:%.*]] = "tt.call"(%arg0, %arg1) {callee = @__ll_gather_1, ll.gather}
// CHECK: [[AGAIN:%.*]] = "ttg.convert_layout"([[GATHERED]])
// CHECK-NOT: ttg.convert_layout
// CHECK: "tt.return"([[AGAIN]])
tt.func @before_conversions(%x: tensor<64x8xi8, #own>, %i: tensor<64x8xi32, #own>) -> tensor<64x8xi8, #spread> {
  %0 = ttg.convert_layout %x : tensor<64x8xi8, #own> -> tensor<64x8xi8, #spread>
  %1 = ttg.convert_layout %i : tensor<64x8xi32, #own> -> tensor<64x8xi32, #spread>
  %2 = tt.gather %0[%1] {axis = 1 : i32} : (tensor<64x8xi8, #spread>, tensor<64x8xi32, #spread>) -> tensor<64x8xi8, #spread>
  tt.return %2 : tensor<64x8xi8, #spread>
}

// CHECK: sym_name = "__ll_gather_0"
// CHECK: }) {ll.axis = 1 : i32, ll.element = "f32", ll.index = #ll.layout<{{.*}}, ll.index_element = "i32", ll.source =
// CHECK: sym_name = "__ll_gather_1"
// CHECK-NOT: __ll_gather_2
}
