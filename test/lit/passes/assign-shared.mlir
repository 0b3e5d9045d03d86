// RUN: triton-linear-opt %s --split-input-file --linear-assign-layouts --linear-select-lowering --verify-diagnostics=only-expected
// RUN: triton-linear-opt %s --mlir-print-op-generic --split-input-file --linear-assign-layouts 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARKS
// RUN: triton-linear-opt %s --mlir-print-op-generic --split-input-file --linear-assign-layouts 2>/dev/null | FileCheck %s --check-prefix=AFTER

// Bytes that lie along rows, for an operand that is stored along columns: as Triton leaves it, each thread stores 64
// single bytes, and the lanes that store along a row all ask for one bank.
#rows = #ttg.blocked<{sizePerThread = [1, 16], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#down = #ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = true, elementBitWidth = 8}>

// REMARKS: remark: layouts are assigned
// REMARKS: remark: group {{[0-9]+}}, 64x128 (load):
// REMARKS: remark: group {{[0-9]+}}, 64x128 (local store): takes #ttg.linear<{register = [[1, 0], [2, 0], {{.*}}lane = [[4, 0], [8, 0], [0, 1], [0, 2], [0, 4]]{{.*}} instead of #ttg.blocked<{sizePerThread = [1, 16]
// REMARKS: remark: conversion of 64x128xi8: 0.0 clocks before, {{[1-9][0-9.]*}} after

// AFTER: ll.assigned
// AFTER: %[[X:.*]] = "tt.load"
// AFTER: %[[Y:.*]] = "ttg.convert_layout"(%[[X]])
// AFTER: "ttg.local_alloc"(%[[Y]])

// expected-remark@below {{layouts are assigned}}
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"} {
tt.func public @operand(%from: !tt.ptr<i8> {tt.divisibility = 16 : i32}) {
  %width = arith.constant dense<4096> : tensor<64x1xi32, #rows>
  %r = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32, #ttg.slice<{dim = 1, parent = #rows}>>
  %c = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32, #ttg.slice<{dim = 0, parent = #rows}>>
  %r1 = tt.expand_dims %r {axis = 1 : i32} : tensor<64xi32, #ttg.slice<{dim = 1, parent = #rows}>> -> tensor<64x1xi32, #rows>
  %c1 = tt.expand_dims %c {axis = 0 : i32} : tensor<128xi32, #ttg.slice<{dim = 0, parent = #rows}>> -> tensor<1x128xi32, #rows>
  %r2 = arith.muli %r1, %width : tensor<64x1xi32, #rows>
  %r3 = tt.broadcast %r2 : tensor<64x1xi32, #rows> -> tensor<64x128xi32, #rows>
  %c3 = tt.broadcast %c1 : tensor<1x128xi32, #rows> -> tensor<64x128xi32, #rows>
  %o = arith.addi %r3, %c3 : tensor<64x128xi32, #rows>
  %s = tt.splat %from : !tt.ptr<i8> -> tensor<64x128x!tt.ptr<i8>, #rows>
  %p = tt.addptr %s, %o : tensor<64x128x!tt.ptr<i8>, #rows>, tensor<64x128xi32, #rows>
  %x = tt.load %p : tensor<64x128x!tt.ptr<i8>, #rows>
  %m = ttg.local_alloc %x : (tensor<64x128xi8, #rows>) -> !ttg.memdesc<64x128xi8, #down, #ttg.shared_memory>
  tt.return
}
}

// -----

// Pairs of rows from one buffer to another that lies the other way: the layout goes through the changes of shape.
#packed = #ttg.blocked<{sizePerThread = [1, 16], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#pairs = #ttg.blocked<{sizePerThread = [1, 16, 2], threadsPerWarp = [4, 8, 1], warpsPerCTA = [4, 1, 1], order = [2, 1, 0]}>
#turned = #ttg.blocked<{sizePerThread = [1, 2, 16], threadsPerWarp = [4, 1, 8], warpsPerCTA = [4, 1, 1], order = [1, 2, 0]}>
#whole = #ttg.linear<{register = [[1, 0], [0, 1], [0, 2], [0, 4], [0, 8], [32, 0]], lane = [[0, 16], [0, 32], [0, 64], [2, 0], [4, 0]], warp = [[8, 0], [16, 0]], block = []}>
#plain = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>
#down = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = true, elementBitWidth = 16}>

// REMARKS: remark: layouts are assigned
// REMARKS: remark: group 0, 32x128 (local load): takes

// AFTER: "ttg.local_load"{{.*}} -> tensor<32x128xf16, #[[BOTH:.*]]>
// AFTER-NEXT: "tt.join"{{.*}} -> tensor<32x128x2xf16
// AFTER-NEXT: "tt.trans"{{.*}} -> tensor<32x2x128xf16
// AFTER-NEXT: "tt.reshape"{{.*}} -> tensor<64x128xf16
// AFTER-NEXT: "ttg.local_alloc"

// expected-remark@below {{layouts are assigned}}
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"} {
tt.func public @unpacked(%from: !ttg.memdesc<32x128xf16, #plain, #ttg.shared_memory, mutable>) {
  %x = ttg.local_load %from : !ttg.memdesc<32x128xf16, #plain, #ttg.shared_memory, mutable> -> tensor<32x128xf16, #packed>
  %j = tt.join %x, %x : tensor<32x128xf16, #packed> -> tensor<32x128x2xf16, #pairs>
  %t = tt.trans %j {order = array<i32: 0, 2, 1>} : tensor<32x128x2xf16, #pairs> -> tensor<32x2x128xf16, #turned>
  %w = tt.reshape %t : tensor<32x2x128xf16, #turned> -> tensor<64x128xf16, #whole>
  %m = ttg.local_alloc %w : (tensor<64x128xf16, #whole>) -> !ttg.memdesc<64x128xf16, #down, #ttg.shared_memory>
  tt.return
}
}
