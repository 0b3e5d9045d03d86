// RUN: triton-linear-opt %s --mlir-print-op-generic --linear-load-early --split-input-file | FileCheck %s

// The second load, and its address, come before the conversion of the first.

#a = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#b = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
// CHECK: ll.early
// CHECK-LABEL: sym_name = "two"
// CHECK: %[[A:[a-z0-9]+]] = "tt.load"(%[[P:[a-z0-9]+]])
// CHECK-NEXT: %[[Q:[a-z0-9]+]] = "tt.addptr"(%[[P]]
// CHECK-NEXT: %[[B:[a-z0-9]+]] = "tt.load"(%[[Q]])
// CHECK-NEXT: "ttg.convert_layout"(%[[A]])
// CHECK-NEXT: "ttg.convert_layout"(%[[B]])
tt.func @two(%p: tensor<512x!tt.ptr<i32>, #a>, %i: tensor<512xi32, #a>) -> (tensor<512xi32, #b>, tensor<512xi32, #b>) {
  %0 = tt.load %p : tensor<512x!tt.ptr<i32>, #a>
  %1 = ttg.convert_layout %0 : tensor<512xi32, #a> -> tensor<512xi32, #b>
  %2 = tt.addptr %p, %i : tensor<512x!tt.ptr<i32>, #a>, tensor<512xi32, #a>
  %3 = tt.load %2 : tensor<512x!tt.ptr<i32>, #a>
  %4 = ttg.convert_layout %3 : tensor<512xi32, #a> -> tensor<512xi32, #b>
  tt.return %1, %4 : tensor<512xi32, #b>, tensor<512xi32, #b>
}
}

// -----

// A store may write what the second load reads.

#a = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#b = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
// CHECK-NOT: ll.early
// CHECK-LABEL: sym_name = "stored"
// CHECK: "tt.load"
// CHECK-NEXT: "ttg.convert_layout"
// CHECK-NEXT: "tt.store"
// CHECK-NEXT: "tt.load"
tt.func @stored(%p: tensor<512x!tt.ptr<i32>, #a>, %x: tensor<512xi32, #a>) -> (tensor<512xi32, #b>, tensor<512xi32, #a>) {
  %0 = tt.load %p : tensor<512x!tt.ptr<i32>, #a>
  %1 = ttg.convert_layout %0 : tensor<512xi32, #a> -> tensor<512xi32, #b>
  tt.store %p, %x : tensor<512x!tt.ptr<i32>, #a>
  %2 = tt.load %p : tensor<512x!tt.ptr<i32>, #a>
  tt.return %1, %2 : tensor<512xi32, #b>, tensor<512xi32, #a>
}
}
