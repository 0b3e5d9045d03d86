// RUN: triton-linear-opt %s --mlir-print-op-generic --linear-attach-layouts | FileCheck %s

// 8x4 elements on 32 lanes, two warps that hold the same:
//   column   0   1   2   3
//   row 0    0   1   2   3      lanes
//   row 1    4   5   6   7
//   row 7   28  29  30  31
#blocked = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [8, 4], warpsPerCTA = [1, 2], order = [1, 0]}>
#transposed = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [4, 8], warpsPerCTA = [2, 1], order = [0, 1]}>
#slice = #ttg.slice<{dim = 1, parent = #blocked}>
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>
#smem = #ttg.shared_memory

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 2 : i32, "ttg.threads-per-warp" = 32 : i32} {

// CHECK-LABEL: sym_name = "results"
// CHECK: "tt.splat"(%arg0) {ll.results = [#ll.layout<{block = [], lane = {{\[\[}}0, 1], [0, 2], [1, 0], [2, 0], [4, 0]], register = [], warp = {{\[\[}}0, 0]]}, [8, 4]>]}
// CHECK: "tt.trans"{{.*}}ll.results = [#ll.layout<{block = [], lane = {{\[\[}}1, 0], [2, 0], [0, 1], [0, 2], [0, 4]], register = [], warp = {{\[\[}}0, 0]]}, [4, 8]>]
// CHECK: "arith.addf"{{.*}}{ll.results = [#ll.layout
// CHECK: "arith.constant"
// CHECK-NOT: ll.
// CHECK: "tt.return"
tt.func @results(%x: f32) {
  %0 = tt.splat %x : f32 -> tensor<8x4xf32, #blocked>
  %1 = tt.trans %0 {order = array<i32: 1, 0>} : tensor<8x4xf32, #blocked> -> tensor<4x8xf32, #transposed>
  %2 = arith.addf %1, %1 : tensor<4x8xf32, #transposed>
  %3 = arith.constant 1 : i32
  tt.return
}

// Arguments are listed on the operation that has the block; what is neither tensor nor memory is unit.
// CHECK: "tt.func"() <{{.*}}sym_name = "arguments"
// CHECK: "scf.for"
// CHECK: }) {ll.arguments = [unit, #ll.layout<{{.*}}[8, 4]>, unit], ll.results = [#ll.layout<{{.*}}[8, 4]>, unit]}
// CHECK: }) {ll.arguments = [#ll.layout<{{.*}}[8, 4]>, unit, #ll.layout<{block = [], offset = {{\[\[}}0, 1], [0, 2], [1, 0], [2, 0], [4, 0]]}, [8, 4]>]}
tt.func @arguments(%x: tensor<8x4xf32, #blocked>, %n: i32, %m: !ttg.memdesc<3x8x4xf32, #shared, #smem, mutable>) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %0:2 = scf.for %i = %zero to %n step %one iter_args(%v = %x, %w = %n) -> (tensor<8x4xf32, #blocked>, i32) : i32 {
    scf.yield %v, %w : tensor<8x4xf32, #blocked>, i32
  }
  tt.return
}

// The scalars that a reduction combines have no layout, its result has the slice's.
// CHECK-LABEL: sym_name = "reduction"
// CHECK: "tt.reduce"
// CHECK: }) {ll.results = [#ll.layout<{block = [], lane = {{\[\[}}0], [0], [1], [2], [4]], register = [], warp = {{\[\[}}0]]}, [8]>]}
tt.func @reduction(%x: tensor<8x4xf32, #blocked>) -> tensor<8xf32, #slice> {
  %0 = "tt.reduce"(%x) <{axis = 1 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %1 = arith.addf %a, %b : f32
    tt.reduce.return %1 : f32
  }) : (tensor<8x4xf32, #blocked>) -> tensor<8xf32, #slice>
  tt.return %0 : tensor<8xf32, #slice>
}

// CHECK-LABEL: sym_name = "memory"
// CHECK: "ttg.local_alloc"{{.*}}ll.results = [#ll.layout<{block = [], offset = {{.*}}, [8, 4]>]
// CHECK: "ttg.memdesc_index"{{.*}}ll.results = [#ll.layout<{block = [], offset = {{.*}}, [8, 4]>]
tt.func @memory() {
  %zero = arith.constant 0 : i32
  %0 = ttg.local_alloc : () -> !ttg.memdesc<2x8x4xf32, #shared, #smem, mutable>
  %1 = ttg.memdesc_index %0[%zero] : !ttg.memdesc<2x8x4xf32, #shared, #smem, mutable> -> !ttg.memdesc<8x4xf32, #shared, #smem, mutable>
  tt.return
}

}
