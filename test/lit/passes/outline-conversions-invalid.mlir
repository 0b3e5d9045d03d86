// RUN: triton-linear-opt %s --linear-outline-conversions --split-input-file --verify-diagnostics --no-verify-each
// RUN: not triton-linear-opt %s --mlir-print-op-generic --linear-outline-conversions --split-input-file 2>&1 | FileCheck %s

#pairs = #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
#comb = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"} {
tt.func @no_plan(%x: tensor<64xf32, #pairs>) -> tensor<64xf32, #comb> {
  // Between passes, what a pass requires is checked before it runs.
  // CHECK: outline-conversions-invalid.mlir:12:8: error: conversion has no plan and is not left to Triton
  // expected-error@below {{linear-outline-conversions: conversion has no plan; run linear-select-lowering}}
  %0 = ttg.convert_layout %x : tensor<64xf32, #pairs> -> tensor<64xf32, #comb>
  tt.return %0 : tensor<64xf32, #comb>
}
}
