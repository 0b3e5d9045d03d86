// --help explains the flags and each pass with its options.
// RUN: triton-linear-opt --help | FileCheck %s

// CHECK: usage: triton-linear-opt
// CHECK: --emit {mlir,ttgir,llvm,llvmir,ptx,cubin,amdgcn,hsaco}
// CHECK: passes:
// CHECK: --linear-assign-layouts
// CHECK: Requires:
// CHECK: Ensures:
// CHECK: --linear-await-operands
// CHECK: --linear-select-lowering
// CHECK: option target=...: GPU to plan for
// CHECK: option scratch-limit=...:
// CHECK: --linear-outline-conversions
// CHECK: --linear-widen-accesses
