// RUN: triton-linear-opt %s --mlir-print-op-generic --linear-select-lowering --linear-outline-conversions | FileCheck %s

// 64 elements on 32 lanes:  element    0  1  2  3  ...  31 32 33 ... 63
//                   #pairs  lane       0  0  1  1  ...  15 16 16 ... 31
//                    #comb  lane       0  1  2  3  ...  31  0  1 ... 31
#pairs = #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
#comb = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
#far = #ttg.linear<{register = [[32]], lane = [[1], [2], [4], [16], [8]], warp = [], block = []}>
#same = #ttg.linear<{register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [], block = []}>

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"} {

// Calls of one pair of types share a stub; another element type has its own.
// CHECK-LABEL: sym_name = "calls"
// CHECK: "tt.call"(%arg0) {callee = @__ll_cvt_0}
// CHECK-NEXT: "tt.call"(%arg1) {callee = @__ll_cvt_0}
// CHECK-NEXT: "tt.call"(%arg2) {callee = @__ll_cvt_1}
// CHECK-NEXT: "tt.call"(%arg3) {callee = @__ll_cvt_3}
tt.func @calls(%x: tensor<64xf32, #pairs>, %y: tensor<64xf32, #pairs>, %z: tensor<64xi8, #pairs>, %p: tensor<64x!tt.ptr<f16>, #pairs>)
    -> (tensor<64xf32, #comb>, tensor<64xf32, #comb>, tensor<64xi8, #comb>, tensor<64x!tt.ptr<f16>, #comb>) {
  %0 = ttg.convert_layout %x : tensor<64xf32, #pairs> -> tensor<64xf32, #comb>
  %1 = ttg.convert_layout %y : tensor<64xf32, #pairs> -> tensor<64xf32, #comb>
  %2 = ttg.convert_layout %z : tensor<64xi8, #pairs> -> tensor<64xi8, #comb>
  %3 = ttg.convert_layout %p : tensor<64x!tt.ptr<f16>, #pairs> -> tensor<64x!tt.ptr<f16>, #comb>
  tt.return %0, %1, %2, %3 : tensor<64xf32, #comb>, tensor<64xf32, #comb>, tensor<64xi8, #comb>, tensor<64x!tt.ptr<f16>, #comb>
}

// A name that is taken is not taken again.
// CHECK-LABEL: sym_name = "__ll_cvt_2"
tt.func private @__ll_cvt_2(%x: i32) {
  tt.return
}

// CHECK-LABEL: sym_name = "no_op"
// CHECK: "ttg.convert_layout"{{.*}}#ll.plan<"noop"
tt.func @no_op(%x: tensor<64xf32, #pairs>) -> tensor<64xf32, #same> {
  %0 = ttg.convert_layout %x : tensor<64xf32, #pairs> -> tensor<64xf32, #same>
  tt.return %0 : tensor<64xf32, #same>
}

// CHECK-LABEL: sym_name = "in_a_loop"
// CHECK: "scf.for"
// CHECK: "tt.call"({{.*}}) {callee = @__ll_cvt_0}
tt.func @in_a_loop(%x: tensor<64xf32, #pairs>, %n: i32) -> tensor<64xf32, #pairs> {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %0 = scf.for %i = %zero to %n step %one iter_args(%v = %x) -> tensor<64xf32, #pairs> : i32 {
    %1 = ttg.convert_layout %v : tensor<64xf32, #pairs> -> tensor<64xf32, #comb>
    %2 = arith.addf %1, %1 : tensor<64xf32, #comb>
    %3 = ttg.convert_layout %2 : tensor<64xf32, #comb> -> tensor<64xf32, #pairs>
    scf.yield %3 : tensor<64xf32, #pairs>
  }
  tt.return %0 : tensor<64xf32, #pairs>
}

// One plan in words, from one layout to two others.
// CHECK-LABEL: sym_name = "apart"
// CHECK: "tt.call"(%{{.*}}) {callee = @__ll_cvt_0}
// CHECK: "tt.call"(%{{.*}}) {callee = @__ll_cvt_5}
tt.func @apart(%x: tensor<64xf32, #pairs>) -> (tensor<64xf32, #comb>, tensor<64xf32, #far>) {
  %0 = ttg.convert_layout %x : tensor<64xf32, #pairs> -> tensor<64xf32, #comb>
  %1 = ttg.convert_layout %x : tensor<64xf32, #pairs> -> tensor<64xf32, #far>
  tt.return %0, %1 : tensor<64xf32, #comb>, tensor<64xf32, #far>
}

}

// The stubs come last, without a body, and say what their calls are to do.
// CHECK: "tt.func"() <{function_type = (tensor<64xf32, #ttg.blocked<{sizePerThread = [2], {{.*}}, sym_name = "__ll_cvt_0", sym_visibility = "private"}> ({
// CHECK-NEXT: }) {ll.destination = #ll.layout<{block = [], lane = {{\[\[}}1], [2], [4], [8], [16]], register = {{\[\[}}32]], warp = []}, [64]>,
// CHECK-SAME: ll.element = "f32", ll.plan = #ll.plan<"
// CHECK-SAME: ll.source = #ll.layout<{block = [], lane = {{\[\[}}2], [4], [8], [16], [32]], register = {{\[\[}}1]], warp = []}, [64]>, noinline = true}
// CHECK: sym_name = "__ll_cvt_1"
// CHECK-NEXT: ll.element = "i8"
// CHECK: sym_name = "__ll_cvt_3"
// CHECK-NEXT: ll.element = "!tt.ptr<f16>"
// CHECK: sym_name = "__ll_cvt_4"
// CHECK-NEXT: ll.element = "f32"
// CHECK: sym_name = "__ll_cvt_5"
// CHECK-NEXT: ll.destination = #ll.layout<{block = [], lane = {{\[\[}}1], [2], [4], [16], [8]], register = {{\[\[}}32]]
// CHECK-NOT: tt.func
