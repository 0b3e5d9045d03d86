// RUN: triton-linear-opt %s --mlir-print-op-generic --linear-lower-local 2>/dev/null | FileCheck %s
// RUN: triton-linear-opt %s --mlir-print-op-generic --linear-lower-local 2>&1 >/dev/null | FileCheck %s --check-prefix=REMARKS
// RUN: triton-linear-opt %s --mlir-print-op-generic --linear-pipeline 2>/dev/null | FileCheck %s --check-prefix=PIPELINE

// The right operand of an 8-bit product takes four neighbours along k, the rows here, in a thread; memory has its
// neighbours along the columns. As it is, each thread loads 64 single bytes. In #cheap a thread has words:
//
//            wanted                        cheap
//   register k0 k1 (a word) k4, n3 ...     n0 n1 (a word), ...
//   lane     k2 k3, n0 n1 n2               k2 k3, k0 k1, n2
#mma = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 8]}>
#operand = #ttg.dot_op<{opIdx = 1, parent = #mma, kWidth = 4}>
#left = #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>
#rows = #ttg.blocked<{sizePerThread = [1, 16], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#bytes = #ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 16, order = [1, 0]}>
#halves = #ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>
#turned = #ttg.nvmma_shared<{swizzlingByteWidth = 64, transposed = true, elementBitWidth = 8}>
#padded = #ttg.padded_shared<[64:+8] {order = [1, 0], shape = [64, 128]}>
#smem = #ttg.shared_memory

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:80"} {

// CHECK-LABEL: sym_name = "operand_of_bytes"
// CHECK: %[[X:.*]] = "ttg.local_load"(%{{.*}}) {ll.staged = "64 wavefronts a warp instead of 256, {{.*}}"} {{.*}} -> tensor<64x128xf8E5M2, #ttg.linear<
// CHECK: %[[Y:.*]] = "ttg.convert_layout"(%[[X]]) {{.*}} -> tensor<64x128xf8E5M2, #ttg.dot_op<
// CHECK: "tt.return"(%[[Y]])
// REMARKS: remark: access by way of another layout: 64 wavefronts a warp instead of 256, and shuffle: {{.*}} clocks instead of
// PIPELINE-LABEL: sym_name = "operand_of_bytes"
// PIPELINE: %[[X:.*]] = "ttg.local_load"
// PIPELINE: "tt.call"(%[[X]]) {callee = @__ll_cvt_0
tt.func @operand_of_bytes(%m: !ttg.memdesc<64x128xf8E5M2, #bytes, #smem, mutable>) -> tensor<64x128xf8E5M2, #operand> {
  %x = ttg.local_load %m : !ttg.memdesc<64x128xf8E5M2, #bytes, #smem, mutable> -> tensor<64x128xf8E5M2, #operand>
  tt.return %x : tensor<64x128xf8E5M2, #operand>
}

// CHECK-LABEL: sym_name = "stored_across"
// CHECK: %[[X:.*]] = "ttg.convert_layout"(%arg0)
// CHECK: "ttg.local_store"(%[[X]], %arg1) {ll.staged
// REMARKS: remark: access by way of another layout: {{.*}} wavefronts a warp instead of 512
tt.func @stored_across(%x: tensor<64x128xi8, #rows>, %m: !ttg.memdesc<64x128xi8, #turned, #smem, mutable>) {
  ttg.local_store %x, %m : tensor<64x128xi8, #rows> -> !ttg.memdesc<64x128xi8, #turned, #smem, mutable>
  tt.return
}

// `ldmatrix` takes as few wavefronts as there can be: nothing to say.
// CHECK-LABEL: sym_name = "operand_of_halves"
// CHECK-NOT: ttg.convert_layout
// CHECK: "ttg.local_load"(%arg0) : {{.*}} -> tensor<64x64xf16, #ttg.dot_op<
// CHECK-NOT: ttg.convert_layout
tt.func @operand_of_halves(%m: !ttg.memdesc<64x64xf16, #halves, #smem, mutable>) -> tensor<64x64xf16, #left> {
  %x = ttg.local_load %m : !ttg.memdesc<64x64xf16, #halves, #smem, mutable> -> tensor<64x64xf16, #left>
  tt.return %x : tensor<64x64xf16, #left>
}

// CHECK-LABEL: sym_name = "padded_memory"
// CHECK-NOT: ttg.convert_layout
// REMARKS-NOT: by way
// REMARKS: remark: access left to Triton: memory with padding or partitions is no linear layout
tt.func @padded_memory(%m: !ttg.memdesc<64x128xi8, #padded, #smem, mutable>) -> tensor<64x128xi8, #operand> {
  %x = ttg.local_load %m : !ttg.memdesc<64x128xi8, #padded, #smem, mutable> -> tensor<64x128xi8, #operand>
  tt.return %x : tensor<64x128xi8, #operand>
}
}
