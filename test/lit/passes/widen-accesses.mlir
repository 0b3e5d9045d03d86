// RUN: triton-linear-opt %s --mlir-print-op-generic --linear-widen-accesses 2>&1 | FileCheck %s
// RUN: triton-linear-opt %s --mlir-print-op-generic --linear-widen-accesses --emit=ptx 2>/dev/null | FileCheck %s --check-prefix=PTX
// RUN: triton-linear-opt %s --mlir-print-op-generic --emit=ptx | FileCheck %s --check-prefix=STOCK

// 64 rows of two f16, four bytes each, that lie one after another. A thread has two rows that are neighbours:
//
//             r0     r1     r2     r3
//   lane 0   0,0    0,1    1,0    1,1
//   lane 1   2,0    2,1    3,0    3,1
//
// The load is of all, the store of the first 50 rows: an even number, so a thread stores both of its rows or none.

#l = #ttg.linear<{register = [[0, 1], [1, 0]], lane = [[2, 0], [4, 0], [8, 0], [16, 0], [32, 0]], warp = [], block = []}>

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"} {

// CHECK: remark: the load of 64x2 takes 8 bytes at once instead of 4
// CHECK: remark: the store of 64x2 takes 8 bytes at once instead of 4
// CHECK: module attributes {ll.widened
// CHECK: [[ROW:%.*]] = "tt.reshape"(%{{.*}}) {tt.constancy = dense<1> : tensor<1xi32>, tt.contiguity = dense<4> : tensor<1xi32>, tt.divisibility = dense<8> : tensor<1xi32>} : {{.*}} -> tensor<128x!tt.ptr<f16>, #ttg.linear<{register = {{\[\[}}1], [2]], lane = {{\[\[}}4], [8], [16], [32], [64]]
// CHECK: [[LOADED:%.*]] = "tt.load"([[ROW]]) <{{{.*(evict = 2|evict_first)}}
// CHECK: "tt.reshape"([[LOADED]]) : {{.*}} -> tensor<64x2xf16
// CHECK: [[MASK:%.*]] = "tt.reshape"(%{{.*}}) {tt.constancy = dense<4> : tensor<1xi32>, tt.contiguity = dense<1> : tensor<1xi32>, tt.divisibility = dense<1> : tensor<1xi32>} : {{.*}} -> tensor<128xi1
// CHECK: "tt.store"(%{{.*}}, %{{.*}}, [[MASK]])

// PTX-COUNT-1: ld.global.{{.*}}v2.b32
// PTX-COUNT-1: st.global.v2.b32
// PTX-NOT: global.{{.*}}b32
// STOCK-COUNT-2: ld.global.{{.*}}b32
// STOCK-COUNT-2: st.global.b32

tt.func public @kernel(%from: !tt.ptr<f16> {tt.divisibility = 16 : i32}, %to: !tt.ptr<f16> {tt.divisibility = 16 : i32}) attributes {noinline = false} {
  %two = arith.constant dense<2> : tensor<64x1xi32, #l>
  %end = arith.constant dense<50> : tensor<64x1xi32, #l>
  %r = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #ttg.slice<{dim = 1, parent = #l}>>
  %c = tt.make_range {end = 2 : i32, start = 0 : i32} : tensor<2xi32, #ttg.slice<{dim = 0, parent = #l}>>
  %rows = tt.expand_dims %r {axis = 1 : i32} : tensor<64xi32, #ttg.slice<{dim = 1, parent = #l}>> -> tensor<64x1xi32, #l>
  %columns = tt.expand_dims %c {axis = 0 : i32} : tensor<2xi32, #ttg.slice<{dim = 0, parent = #l}>> -> tensor<1x2xi32, #l>
  %down = arith.muli %rows, %two : tensor<64x1xi32, #l>
  %0 = tt.broadcast %down : tensor<64x1xi32, #l> -> tensor<64x2xi32, #l>
  %1 = tt.broadcast %columns : tensor<1x2xi32, #l> -> tensor<64x2xi32, #l>
  %at = arith.addi %0, %1 : tensor<64x2xi32, #l>
  %there = arith.cmpi slt, %rows, %end : tensor<64x1xi32, #l>
  %mask = tt.broadcast %there : tensor<64x1xi1, #l> -> tensor<64x2xi1, #l>
  %2 = tt.splat %from : !tt.ptr<f16> -> tensor<64x2x!tt.ptr<f16>, #l>
  %p = tt.addptr %2, %at : tensor<64x2x!tt.ptr<f16>, #l>, tensor<64x2xi32, #l>
  %3 = tt.splat %to : !tt.ptr<f16> -> tensor<64x2x!tt.ptr<f16>, #l>
  %q = tt.addptr %3, %at : tensor<64x2x!tt.ptr<f16>, #l>, tensor<64x2xi32, #l>
  %x = tt.load %p evictionPolicy = evict_first : tensor<64x2x!tt.ptr<f16>, #l>
  tt.store %q, %x, %mask : tensor<64x2x!tt.ptr<f16>, #l>
  tt.return
}
}
