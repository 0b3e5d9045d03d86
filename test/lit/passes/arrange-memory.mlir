// RUN: triton-linear-opt %s --mlir-print-op-generic --linear-arrange-memory 2>/dev/null | FileCheck %s
// RUN: triton-linear-opt %s --mlir-print-op-generic --linear-arrange-memory 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARKS

// Rows of 64 bytes. `ldmatrix` reads eight rows of a batch at once:
//
//   order [2, 0, 1]   row r of batch b begins at 256 r + 64 b: eight rows in the same banks, whatever the swizzle
//   order [2, 1, 0]   row r of batch b begins at 1024 b + 64 r: two rows in all banks, which the swizzle spreads
#mma = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [4, 1, 1], instrShape = [1, 16, 8]}>
#operand = #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>
#rows = #ttg.blocked<{sizePerThread = [1, 1, 8], threadsPerWarp = [1, 8, 4], warpsPerCTA = [2, 2, 1], order = [2, 1, 0]}>
#between = #ttg.swizzled_shared<{vec = 8, perPhase = 2, maxPhase = 4, order = [2, 0, 1]}>
#tma = #ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = false, elementBitWidth = 16, rank = 3}>
#smem = #ttg.shared_memory

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"} {

// CHECK-LABEL: sym_name = "batch_between_rows"
// CHECK: %[[M:.*]] = "ttg.local_alloc"(%arg0) {ll.arranged = "16 wavefronts a warp instead of {{.*}}"} {{.*}} order = [2, 1, 0]}>, #ttg.shared_memory>
// CHECK: "ttg.local_load"(%[[M]]) {{.*}} order = [2, 1, 0]}>, #ttg.shared_memory>
// REMARKS: remark: memory is laid out anew: 16 wavefronts a warp instead of {{.*}} clocks instead of
tt.func @batch_between_rows(%x: tensor<4x16x32xf16, #rows>) -> tensor<4x16x32xf16, #operand> {
  %m = ttg.local_alloc %x : (tensor<4x16x32xf16, #rows>) -> !ttg.memdesc<4x16x32xf16, #between, #smem>
  %y = ttg.local_load %m : !ttg.memdesc<4x16x32xf16, #between, #smem> -> tensor<4x16x32xf16, #operand>
  tt.return %y : tensor<4x16x32xf16, #operand>
}

// Whoever made the memory of an argument knows how it is laid out, and so does what TMA reads.
// CHECK-LABEL: sym_name = "memory_of_others"
// CHECK: order = [2, 0, 1]
// CHECK-NOT: ll.arranged
tt.func @memory_of_others(%m: !ttg.memdesc<4x16x32xf16, #between, #smem>, %x: tensor<4x16x32xf16, #rows>) -> tensor<4x16x32xf16, #operand> {
  %y = ttg.local_load %m : !ttg.memdesc<4x16x32xf16, #between, #smem> -> tensor<4x16x32xf16, #operand>
  %n = ttg.local_alloc %x : (tensor<4x16x32xf16, #rows>) -> !ttg.memdesc<4x16x32xf16, #tma, #smem>
  %z = ttg.local_load %n : !ttg.memdesc<4x16x32xf16, #tma, #smem> -> tensor<4x16x32xf16, #operand>
  tt.return %y : tensor<4x16x32xf16, #operand>
}
}
