// RUN: triton-linear-opt %s --no-aliases --linear-narrow-operands --split-input-file | FileCheck %s

// A product of doubles, of which the left were bytes: four neighbours along k in a thread, where the instruction
// has one. Everything of that encoding changes, the constant too.

#mma = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [1, 4], instrShape = [16, 8]}>
#left = #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 4}>
#right = #ttg.dot_op<{opIdx = 1, parent = #mma, kWidth = 4}>
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>
#smem = #ttg.shared_memory

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
// CHECK: ll.narrowed
// CHECK: "ttg.local_load"{{.*}} -> tensor<16x16xi8, #ttg.dot_op<{opIdx = 0, {{.*}}, kWidth = 1}>>
// CHECK: "arith.sitofp"{{.*}}kWidth = 1}>>) -> tensor<16x16xf64, {{.*}}kWidth = 1}>>
// CHECK: dense<5.0{{.*}}> : tensor<16x16xf64, #ttg.dot_op<{opIdx = 1, {{.*}}, kWidth = 1}>>
// CHECK-NOT: kWidth = 4
tt.func @bytes(%a: !ttg.memdesc<16x16xi8, #shared, #smem>, %c: tensor<16x16xf64, #mma>) -> tensor<16x16xf64, #mma> {
  %0 = ttg.local_load %a : !ttg.memdesc<16x16xi8, #shared, #smem> -> tensor<16x16xi8, #left>
  %1 = arith.sitofp %0 : tensor<16x16xi8, #left> to tensor<16x16xf64, #left>
  %2 = arith.constant dense<5.000000e-01> : tensor<16x16xf64, #right>
  %3 = tt.dot %1, %2, %c : tensor<16x16xf64, #left> * tensor<16x16xf64, #right> -> tensor<16x16xf64, #mma>
  tt.return %3 : tensor<16x16xf64, #mma>
}
}

// -----

// Halves are multiplied in the same layout, and want their neighbours.

#mma = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [1, 4], instrShape = [16, 8]}>
#left = #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 2}>
#right = #ttg.dot_op<{opIdx = 1, parent = #mma, kWidth = 2}>
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [1, 0]}>
#smem = #ttg.shared_memory

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
// CHECK-NOT: ll.narrowed
// CHECK: sym_name = "halves_too"
// CHECK-NOT: kWidth = 1
tt.func @halves_too(%a: !ttg.memdesc<16x16xf64, #shared, #smem>, %b: !ttg.memdesc<16x16xf16, #shared, #smem>, %c: tensor<16x16xf64, #mma>, %d: tensor<16x16xf32, #mma>) {
  %0 = ttg.local_load %a : !ttg.memdesc<16x16xf64, #shared, #smem> -> tensor<16x16xf64, #left>
  %1 = ttg.local_load %a : !ttg.memdesc<16x16xf64, #shared, #smem> -> tensor<16x16xf64, #right>
  %2 = tt.dot %0, %1, %c : tensor<16x16xf64, #left> * tensor<16x16xf64, #right> -> tensor<16x16xf64, #mma>
  %3 = ttg.local_load %b : !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<16x16xf16, #left>
  %4 = ttg.local_load %b : !ttg.memdesc<16x16xf16, #shared, #smem> -> tensor<16x16xf16, #right>
  %5 = tt.dot %3, %4, %d : tensor<16x16xf16, #left> * tensor<16x16xf16, #right> -> tensor<16x16xf32, #mma>
  tt.return
}
}

// -----

// The operand belongs to the function's type, which callers know.

#mma = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [1, 4], instrShape = [16, 8]}>
#left = #ttg.dot_op<{opIdx = 0, parent = #mma, kWidth = 4}>
#right = #ttg.dot_op<{opIdx = 1, parent = #mma, kWidth = 4}>

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
// CHECK-NOT: ll.narrowed
// CHECK: sym_name = "argument"
// CHECK-NOT: kWidth = 1
tt.func @argument(%a: tensor<16x16xf64, #left>, %b: tensor<16x16xf64, #right>, %c: tensor<16x16xf64, #mma>) -> tensor<16x16xf64, #mma> {
  %0 = tt.dot %a, %b, %c : tensor<16x16xf64, #left> * tensor<16x16xf64, #right> -> tensor<16x16xf64, #mma>
  tt.return %0 : tensor<16x16xf64, #mma>
}
}
