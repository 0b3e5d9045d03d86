// RUN: triton-linear-opt %s --linear-pipeline --no-assign --no-reductions --emit=llvm --split-input-file | FileCheck %s

// A converted matrix that a loop or a branch joins with another one must get through Triton's own analyses.

#rows = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [4, 16], warpsPerCTA = [2, 1], order = [1, 0]}>
#columns = #ttg.blocked<{sizePerThread = [4, 1], threadsPerWarp = [16, 4], warpsPerCTA = [1, 2], order = [0, 1]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 2 : i32, "ttg.threads-per-warp" = 64 : i32, ttg.target = "hip:gfx942"} {
// CHECK-LABEL: llvm.func @amd
// CHECK-NOT: unrealized_conversion_cast
// CHECK: llvm.return
tt.func public @amd(%p: tensor<64x64x!tt.ptr<f32>, #rows>, %n: i32, %c: i1) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %x = arith.constant dense<0.0> : tensor<64x64xf32, #rows>
  %0 = scf.for %i = %zero to %n step %one iter_args(%v = %x) -> tensor<64x64xf32, #rows> : i32 {
    %1 = ttg.convert_layout %v : tensor<64x64xf32, #rows> -> tensor<64x64xf32, #columns>
    %2 = arith.addf %1, %1 : tensor<64x64xf32, #columns>
    %3 = ttg.convert_layout %2 : tensor<64x64xf32, #columns> -> tensor<64x64xf32, #rows>
    %4 = scf.if %c -> tensor<64x64xf32, #rows> {
      scf.yield %3 : tensor<64x64xf32, #rows>
    } else {
      scf.yield %v : tensor<64x64xf32, #rows>
    }
    scf.yield %4 : tensor<64x64xf32, #rows>
  }
  tt.store %p, %0 : tensor<64x64x!tt.ptr<f32>, #rows>
  tt.return
}
}

// -----

#rows = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [2, 16], warpsPerCTA = [2, 1], order = [1, 0]}>
#columns = #ttg.blocked<{sizePerThread = [4, 1], threadsPerWarp = [16, 2], warpsPerCTA = [1, 2], order = [0, 1]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 2 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"} {
// CHECK-LABEL: llvm.func @nvidia
// CHECK-NOT: unrealized_conversion_cast
// CHECK: llvm.return
tt.func public @nvidia(%p: tensor<64x64x!tt.ptr<f32>, #rows>, %n: i32, %c: i1) {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %x = arith.constant dense<0.0> : tensor<64x64xf32, #rows>
  %0 = scf.for %i = %zero to %n step %one iter_args(%v = %x) -> tensor<64x64xf32, #rows> : i32 {
    %1 = ttg.convert_layout %v : tensor<64x64xf32, #rows> -> tensor<64x64xf32, #columns>
    %2 = arith.addf %1, %1 : tensor<64x64xf32, #columns>
    %3 = ttg.convert_layout %2 : tensor<64x64xf32, #columns> -> tensor<64x64xf32, #rows>
    %4 = scf.if %c -> tensor<64x64xf32, #rows> {
      scf.yield %3 : tensor<64x64xf32, #rows>
    } else {
      scf.yield %v : tensor<64x64xf32, #rows>
    }
    scf.yield %4 : tensor<64x64xf32, #rows>
  }
  tt.store %p, %0 : tensor<64x64x!tt.ptr<f32>, #rows>
  tt.return
}
}
