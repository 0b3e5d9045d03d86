// RUN: triton-linear-opt %s --mlir-print-op-generic --linear-await-operands --split-input-file | FileCheck %s

#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>
#left = #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>
#shared = #ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>
#right = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#smem = #ttg.shared_memory

// The left operand is computed in each iteration: the product of the last one is waited for before that begins.

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
// CHECK: ll.awaited
// CHECK: "scf.for"
// CHECK: ^bb0(%{{.*}}: i32, %[[ACC:[^:]*]]: tensor<64x64xf32
// CHECK: "ttg.async_wait"
// CHECK: %[[NOW:.*]] = "ttng.warp_group_dot_wait"(%[[ACC]]) {pendings = 0 : i32}
// CHECK: "ttg.local_load"
// CHECK: "ttng.warp_group_dot"(%{{.*}}, %{{.*}}, %[[NOW]])
// CHECK: "ttng.warp_group_dot_wait"{{.*}}pendings = 1 : i32
tt.func @computed(%a: !ttg.memdesc<64x16xi8, #shared, #smem>, %b: !ttg.memdesc<16x64xf16, #right, #smem>, %c: tensor<64x64xf32, #mma>, %n: i32) -> tensor<64x64xf32, #mma> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %0 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %c) -> (tensor<64x64xf32, #mma>) : i32 {
    %1 = ttg.async_wait {num = 2 : i32}
    %2 = ttg.local_load %a : !ttg.memdesc<64x16xi8, #shared, #smem> -> tensor<64x16xi8, #left>
    %3 = arith.sitofp %2 : tensor<64x16xi8, #left> to tensor<64x16xf16, #left>
    %4 = ttng.warp_group_dot %3, %b, %acc {inputPrecision = 0 : i32, isAsync = true} : tensor<64x16xf16, #left> * !ttg.memdesc<16x64xf16, #right, #smem> -> tensor<64x64xf32, #mma>
    %5 = ttng.warp_group_dot_wait %4 {pendings = 1 : i32} : tensor<64x64xf32, #mma>
    scf.yield %5 : tensor<64x64xf32, #mma>
  }
  %6 = ttng.warp_group_dot_wait %0 {pendings = 0 : i32} : tensor<64x64xf32, #mma>
  tt.return %6 : tensor<64x64xf32, #mma>
}
}

// -----

// Probabilities of attention: the product before them is waited for, and with it that of the last iteration.

#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>
#left = #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>
#right = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#smem = #ttg.shared_memory

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
// CHECK-NOT: ll.awaited
// CHECK-LABEL: sym_name = "attention"
// CHECK-COUNT-2: "ttng.warp_group_dot_wait"
// CHECK-NOT: "ttng.warp_group_dot_wait"
tt.func @attention(%q: !ttg.memdesc<64x64xf16, #right, #smem>, %k: !ttg.memdesc<64x64xf16, #right, #smem>, %c: tensor<64x64xf32, #mma>, %m: tensor<64x64xf32, #mma>, %n: i32) -> tensor<64x64xf32, #mma> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %0 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %c) -> (tensor<64x64xf32, #mma>) : i32 {
    %step = arith.sitofp %i : i32 to f32
    %mask = tt.splat %step : f32 -> tensor<64x64xf32, #mma>
    %bias = arith.addf %m, %mask : tensor<64x64xf32, #mma>
    %1 = ttng.warp_group_dot %q, %k, %m {inputPrecision = 0 : i32, isAsync = true} : !ttg.memdesc<64x64xf16, #right, #smem> * !ttg.memdesc<64x64xf16, #right, #smem> -> tensor<64x64xf32, #mma>
    %2 = ttng.warp_group_dot_wait %1 {pendings = 0 : i32} : tensor<64x64xf32, #mma>
    %3 = arith.addf %2, %bias : tensor<64x64xf32, #mma>
    %4 = arith.truncf %3 : tensor<64x64xf32, #mma> to tensor<64x64xf16, #mma>
    %5 = ttg.convert_layout %4 : tensor<64x64xf16, #mma> -> tensor<64x64xf16, #left>
    %6 = ttng.warp_group_dot %5, %k, %acc {inputPrecision = 0 : i32, isAsync = true} : tensor<64x64xf16, #left> * !ttg.memdesc<64x64xf16, #right, #smem> -> tensor<64x64xf32, #mma>
    scf.yield %6 : tensor<64x64xf32, #mma>
  }
  %7 = ttng.warp_group_dot_wait %0 {pendings = 0 : i32} : tensor<64x64xf32, #mma>
  tt.return %7 : tensor<64x64xf32, #mma>
}
}

// -----

// The operand was loaded by the iteration before, so its registers are written where this one ends.

#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>
#left = #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>
#shared = #ttg.swizzled_shared<{vec = 8, perPhase = 1, maxPhase = 8, order = [1, 0]}>
#right = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#smem = #ttg.shared_memory

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
// CHECK: ll.awaited
// CHECK-LABEL: sym_name = "handed"
// CHECK: %[[DOT:.*]] = "ttng.warp_group_dot"
// CHECK-NEXT: %[[DONE:.*]] = "ttng.warp_group_dot_wait"(%[[DOT]]) {pendings = 0 : i32}
// CHECK: "ttg.local_load"
// CHECK: "scf.yield"(%[[DONE]],
tt.func @handed(%a: !ttg.memdesc<64x16xf16, #shared, #smem>, %b: !ttg.memdesc<16x64xf16, #right, #smem>, %first: tensor<64x16xf16, #left>, %c: tensor<64x64xf32, #mma>, %n: i32) -> tensor<64x64xf32, #mma> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %0:2 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %c, %left = %first) -> (tensor<64x64xf32, #mma>, tensor<64x16xf16, #left>) : i32 {
    %1 = ttng.warp_group_dot %left, %b, %acc {inputPrecision = 0 : i32, isAsync = true} : tensor<64x16xf16, #left> * !ttg.memdesc<16x64xf16, #right, #smem> -> tensor<64x64xf32, #mma>
    %2 = ttg.local_load %a : !ttg.memdesc<64x16xf16, #shared, #smem> -> tensor<64x16xf16, #left>
    scf.yield %1, %2 : tensor<64x64xf32, #mma>, tensor<64x16xf16, #left>
  }
  %3 = ttng.warp_group_dot_wait %0#0 {pendings = 0 : i32} : tensor<64x64xf32, #mma>
  tt.return %3 : tensor<64x64xf32, #mma>
}
}

// -----

// An operand that no iteration writes.

#mma = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 16]}>
#left = #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>
#right = #ttg.nvmma_shared<{swizzlingByteWidth = 128, transposed = false, elementBitWidth = 16}>
#smem = #ttg.shared_memory

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
// CHECK-NOT: ll.awaited
// CHECK-LABEL: sym_name = "same"
// CHECK-COUNT-1: "ttng.warp_group_dot_wait"
// CHECK-NOT: "ttng.warp_group_dot_wait"
tt.func @same(%left: tensor<64x16xf16, #left>, %b: !ttg.memdesc<16x64xf16, #right, #smem>, %c: tensor<64x64xf32, #mma>, %n: i32) -> tensor<64x64xf32, #mma> {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %0 = scf.for %i = %c0 to %n step %c1 iter_args(%acc = %c) -> (tensor<64x64xf32, #mma>) : i32 {
    %1 = ttng.warp_group_dot %left, %b, %acc {inputPrecision = 0 : i32, isAsync = true} : tensor<64x16xf16, #left> * !ttg.memdesc<16x64xf16, #right, #smem> -> tensor<64x64xf32, #mma>
    scf.yield %1 : tensor<64x64xf32, #mma>
  }
  %2 = ttng.warp_group_dot_wait %0 {pendings = 0 : i32} : tensor<64x64xf32, #mma>
  tt.return %2 : tensor<64x64xf32, #mma>
}
}
