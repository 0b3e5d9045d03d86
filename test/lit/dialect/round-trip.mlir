// RUN: triton-linear-opt %s --mlir-print-op-generic --emit=ttgir | FileCheck %s
// RUN: triton-linear-opt %s --mlir-print-op-generic --mlir-print-debuginfo | FileCheck %s --check-prefix=GENERIC
// RUN: triton-linear-opt %s --mlir-print-op-generic --emit=ttgir | triton-linear-opt - --emit=ttgir | FileCheck %s
// RUN: triton-linear-opt %s --mlir-print-op-generic | triton-linear-opt - --emit=ttgir | FileCheck %s

// What is written in Triton's syntax is carried in generic form, with nested aliases expanded, and comes back.
#blocked = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [1, 32], warpsPerCTA = [1, 1], order = [1, 0]}>
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory

// CHECK: #blocked = #ttg.blocked
// CHECK: module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 32 : i32} {
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 32 : i32} {

// CHECK-LABEL: tt.func @nested_alias
// CHECK-SAME: tensor<32xf32, #ttg.slice<{dim = 0, parent = #blocked}>>
// CHECK: ttg.local_store %arg0, %arg1 : tensor<32xf32, #ttg.slice<{dim = 0, parent = #blocked}>> -> !ttg.memdesc<32xf32, #shared, #smem, mutable>
// GENERIC: sym_name = "nested_alias"
// GENERIC: "ttg.local_store"(%arg0, %arg1) : (tensor<32xf32, #ttg.slice<{dim = 0, parent = #ttg.blocked<{sizePerThread = [1, 1], {{.*}}}>}>>, !ttg.memdesc<32xf32, #ttg.swizzled_shared<{{.*}}>, #ttg.shared_memory, mutable>) -> () loc([[LOCATION:#.*]])
tt.func @nested_alias(%x: tensor<32xf32, #ttg.slice<{dim = 0, parent = #blocked}>>, %m: !ttg.memdesc<32xf32, #shared, #smem, mutable>) {
  ttg.local_store %x, %m : tensor<32xf32, #ttg.slice<{dim = 0, parent = #blocked}>> -> !ttg.memdesc<32xf32, #shared, #smem, mutable> loc("kernel.py":12:34)
  tt.return
}

// An alias in a string is text.
// CHECK-LABEL: tt.func @alias_in_a_string
// CHECK: tt.print "#blocked and !tt.ptr"
tt.func @alias_in_a_string(%x: i32) {
  tt.print "#blocked and !tt.ptr" {hex = false, isSigned = array<i32: 1>} : %x : i32
  tt.return
}

}
// GENERIC: [[LOCATION]] = loc("kernel.py":12:34)
