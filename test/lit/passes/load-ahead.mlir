// RUN: triton-linear-opt %s --mlir-print-op-generic --linear-load-ahead --split-input-file | FileCheck %s

// The first load comes in front of the loop, that of the next iteration in front of the conversion.

#a = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#b = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
// CHECK: ll.early
// CHECK-LABEL: sym_name = "rows"
// CHECK: %[[ANY:[a-z0-9]+]] = "arith.cmpi"(%[[LOW:[a-z0-9]+]], %[[HIGH:[a-z0-9]+]])
// CHECK: %[[AT:[a-z0-9]+]] = "tt.addptr"
// CHECK: %[[MASK:[a-z0-9]+]] = "tt.splat"(%[[ANY]])
// CHECK: %[[FIRST:[a-z0-9]+]] = "tt.load"(%[[AT]], %[[MASK]])
// CHECK: "scf.for"(%[[LOW]], %[[HIGH]], %[[STEP:[a-z0-9]+]], %[[FIRST]])
// CHECK-NEXT: ^bb0(%[[I:[a-z0-9]+]]: i32, %[[X:[a-z0-9]+]]:
// CHECK: "arith.addi"(%[[X]], %[[X]])
// CHECK: %[[NEXT:[a-z0-9]+]] = "arith.addi"(%[[I]], %[[STEP]])
// CHECK: "arith.cmpi"(%[[NEXT]], %[[HIGH]])
// CHECK: %[[Y:[a-z0-9]+]] = "tt.load"
// CHECK: "ttg.convert_layout"
// CHECK: "scf.yield"(%[[Y]])
tt.func @rows(%p: tensor<512x!tt.ptr<i32>, #a>, %o: tensor<512x!tt.ptr<i32>, #b>, %a: i32, %b: i32, %s: i32) {
  scf.for %i = %a to %b step %s : i32 {
    %0 = tt.splat %i : i32 -> tensor<512xi32, #a>
    %1 = tt.addptr %p, %0 : tensor<512x!tt.ptr<i32>, #a>, tensor<512xi32, #a>
    %2 = tt.load %1 : tensor<512x!tt.ptr<i32>, #a>
    %3 = arith.addi %2, %2 : tensor<512xi32, #a>
    %4 = ttg.convert_layout %3 : tensor<512xi32, #a> -> tensor<512xi32, #b>
    tt.store %o, %4 : tensor<512x!tt.ptr<i32>, #b>
  }
  tt.return
}
}

// -----

// An atomic operation keeps the loads of its loop where they are.

#a = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#b = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
// CHECK-NOT: ll.early
// CHECK-LABEL: sym_name = "atomic"
// CHECK: "scf.for"
// CHECK: "tt.load"
// CHECK: "tt.atomic_rmw"
tt.func @atomic(%p: tensor<512x!tt.ptr<i32>, #a>, %o: tensor<512x!tt.ptr<i32>, #b>, %a: i32, %b: i32, %s: i32) {
  scf.for %i = %a to %b step %s : i32 {
    %0 = tt.splat %i : i32 -> tensor<512xi32, #a>
    %1 = tt.addptr %p, %0 : tensor<512x!tt.ptr<i32>, #a>, tensor<512xi32, #a>
    %2 = tt.load %1 : tensor<512x!tt.ptr<i32>, #a>
    %3 = ttg.convert_layout %2 : tensor<512xi32, #a> -> tensor<512xi32, #b>
    %4 = tt.atomic_rmw add, relaxed, gpu, %o, %3 : (tensor<512x!tt.ptr<i32>, #b>, tensor<512xi32, #b>) -> tensor<512xi32, #b>
  }
  tt.return
}
}
