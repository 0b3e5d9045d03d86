// RUN: triton-linear-opt %s --linear-assign-layouts --linear-select-lowering --verify-diagnostics=only-expected
// RUN: triton-linear-opt %s --mlir-print-op-generic --linear-assign-layouts 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARKS
// RUN: triton-linear-opt %s --mlir-print-op-generic --linear-assign-layouts 2>/dev/null | FileCheck %s --check-prefix=AFTER

// What is loaded by rows goes to columns for one operation, and back to rows to be stored.
#rows = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
#columns = #ttg.blocked<{sizePerThread = [4, 1], threadsPerWarp = [16, 2], warpsPerCTA = [1, 4], order = [0, 1]}>

// REMARKS: remark: layouts are assigned: modelled clocks of memory [[MEMORY:[0-9.]+]] before, {{[0-9.]+}} after; other clocks {{[0-9.]+}} before, {{[0-9.]+}} after
// REMARKS-SAME: optimal
// REMARKS: remark: group 0, 64x64 (load): keeps #ttg.blocked<{sizePerThread = [1, 4]
// REMARKS: note: {{[0-9.]+}} clocks of memory and {{[0-9.]+}} others: #ttg.blocked<{sizePerThread = [1, 4]
// REMARKS: note: {{[0-9.]+}} clocks of memory and {{[0-9.]+}} others: #ttg.blocked<{sizePerThread = [4, 1]
// REMARKS: remark: group 1, 64x64 (no anchor): takes #ttg.blocked<{sizePerThread = [1, 4]{{.*}} instead of #ttg.blocked<{sizePerThread = [4, 1]
// REMARKS: remark: group 2, 64x64 (store): keeps #ttg.blocked<{sizePerThread = [1, 4]
// REMARKS-COUNT-2: remark: conversion of 64x64xf32: {{[1-9][0-9.]*}} clocks before, 0.0 after
// REMARKS: remark: a thread needs about {{[0-9]+}} registers before, {{[0-9]+}} after

// AFTER: ll.assigned
// AFTER-NOT: ttg.convert_layout
// AFTER-NOT: sizePerThread = [4, 1]
// AFTER: "tt.store"

// expected-remark@below {{layouts are assigned}}
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"} {
tt.func public @there_and_back(%from: !tt.ptr<f32> {tt.divisibility = 16 : i32}, %to: !tt.ptr<f32> {tt.divisibility = 16 : i32}) {
  %width = arith.constant dense<64> : tensor<64x1xi32, #rows>
  %r = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #ttg.slice<{dim = 1, parent = #rows}>>
  %c = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #ttg.slice<{dim = 0, parent = #rows}>>
  %r1 = tt.expand_dims %r {axis = 1 : i32} : tensor<64xi32, #ttg.slice<{dim = 1, parent = #rows}>> -> tensor<64x1xi32, #rows>
  %c1 = tt.expand_dims %c {axis = 0 : i32} : tensor<64xi32, #ttg.slice<{dim = 0, parent = #rows}>> -> tensor<1x64xi32, #rows>
  %r2 = arith.muli %r1, %width : tensor<64x1xi32, #rows>
  %r3 = tt.broadcast %r2 : tensor<64x1xi32, #rows> -> tensor<64x64xi32, #rows>
  %c3 = tt.broadcast %c1 : tensor<1x64xi32, #rows> -> tensor<64x64xi32, #rows>
  %o = arith.addi %r3, %c3 : tensor<64x64xi32, #rows>
  %s = tt.splat %from : !tt.ptr<f32> -> tensor<64x64x!tt.ptr<f32>, #rows>
  %p = tt.addptr %s, %o : tensor<64x64x!tt.ptr<f32>, #rows>, tensor<64x64xi32, #rows>
  %d = tt.splat %to : !tt.ptr<f32> -> tensor<64x64x!tt.ptr<f32>, #rows>
  %q = tt.addptr %d, %o : tensor<64x64x!tt.ptr<f32>, #rows>, tensor<64x64xi32, #rows>
  %x = tt.load %p : tensor<64x64x!tt.ptr<f32>, #rows>
  %there = ttg.convert_layout %x : tensor<64x64xf32, #rows> -> tensor<64x64xf32, #columns>
  %y = math.exp %there : tensor<64x64xf32, #columns>
  %back = ttg.convert_layout %y : tensor<64x64xf32, #columns> -> tensor<64x64xf32, #rows>
  tt.store %q, %back : tensor<64x64x!tt.ptr<f32>, #rows>
  tt.return
}
}
