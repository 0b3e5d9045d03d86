// A mistake is reported as a diagnostic, at its place in the input if it has one; the status is 1.
// RUN: not triton-linear-opt %s --mlir-print-op-generic --linear-outline-conversions 2>&1 | FileCheck %s --check-prefix=PASS
// RUN: not triton-linear-opt %s --mlir-print-op-generic --linear-select-lowering=tarjet=cuda:90 2>&1 | FileCheck %s --check-prefix=OPTION
// RUN: not triton-linear-opt %s --mlir-print-op-generic --linear-select-lowering=scratch-limit=few 2>&1 | FileCheck %s --check-prefix=NUMBER
// RUN: not triton-linear-opt %s --mlir-print-op-generic --pass-pipeline='builtin.module(no-such-pass)' 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not triton-linear-opt %s --mlir-print-op-generic --target=cuda:9000 --linear-pipeline 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: not triton-linear-opt %s --mlir-print-op-generic --target=hip:gfx942 --linear-pipeline 2>&1 | FileCheck %s --check-prefix=LANES
// RUN: not triton-linear-opt %s --emit=amdgcn 2>&1 | FileCheck %s --check-prefix=STAGE
// RUN: not triton-linear-opt %S/no-such-file.mlir --mlir-print-op-generic 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not triton-linear-opt %s --mlir-print-op-generic -o %t.no-such-folder/x 2>&1 | FileCheck %s --check-prefix=OUTPUT

// PASS:         opt-errors.mlir:[[# @LINE + 17]]:10: error: conversion has no plan and is not left to Triton
// PASS-NEXT:    ttg.convert_layout %x
// PASS-NEXT:    {{^ +}}^
// PASS-NOT:     Traceback
// OPTION:       error: linear-select-lowering: no option 'tarjet'; did you mean 'target'?
// NUMBER:       error: linear-select-lowering: option 'scratch-limit' takes a number, got 'few'
// NAME:         error: pass pipeline: no pass 'no-such-pass'; ours are linear-assign-layouts
// TARGET:       error: unknown target 'cuda:9000'; known: cuda:80
// LANES:        error: target: 'hip:gfx942' has 64 lanes, the module's ttg.threads-per-warp is 32
// STAGE:        error: emit: target 'cuda:90' has no stage 'amdgcn'; its stages are llvm, llvmir, ptx, cubin
// MISSING:      no-such-file.mlir: error: cannot open input file: No such file or directory
// OUTPUT:       no-such-folder/x: error: cannot open output file: No such file or directory

#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
#pairs = #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @kernel(%x: tensor<64xf32, #blocked>, %p: tensor<64x!tt.ptr<f32>, #pairs>) {
    %y = ttg.convert_layout %x : tensor<64xf32, #blocked> -> tensor<64xf32, #pairs>
    tt.store %p, %y : tensor<64x!tt.ptr<f32>, #pairs>
    tt.return
  }
}
