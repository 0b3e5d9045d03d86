// One line for each conversion, then the count; calls of one stub are two conversions.
// RUN: triton-linear verify %s | FileCheck %s
// RUN: triton-linear verify - < %s | FileCheck %s --check-prefix=STDIN

// CHECK:      verify.mlir:[[# @LINE + 20]]:10: 64xf32 blocked -> blocked: shuffle: {{.*}} {{[0-9]+}} shuffle{{s?}}, {{[0-9]+}} alu; 0 wrong of 64, 0 races, plan proved
// CHECK-NEXT: verify.mlir:[[# @LINE + 20]]:10: 64xf32 blocked -> blocked: shuffle: {{.*}} 0 wrong of 64, 0 races, plan proved
// CHECK-NEXT: verify.mlir:[[# @LINE + 24]]:10: 64xf32 blocked -> slice(blocked): {{.*}} wrong of {{[0-9]+}}, 0 races, plan proved
// CHECK-NEXT: verify.mlir:[[# @LINE + 24]]:10: 64xf32 blocked -> linear: no-op
// CHECK-NEXT: 1 no-op, 0 left to Triton
// CHECK-NEXT: 3 conversions verified, 0 wrong


// STDIN: <stdin>:{{[0-9]+}}:10: 64xf32 blocked -> blocked
// STDIN: 3 conversions verified, 0 wrong

#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
#pairs = #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
#parent = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [4, 8], warpsPerCTA = [1, 1], order = [0, 1]}>
#linear = #ttg.linear<{register = [[32]], lane = [[1], [2], [4], [8], [16]], warp = [], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @twice(%x: tensor<64xf32, #blocked>) {
    %y = arith.addf %x, %x : tensor<64xf32, #blocked>

    // Two values between the same layouts share one stub.
    %a = ttg.convert_layout %x : tensor<64xf32, #blocked> -> tensor<64xf32, #pairs>
    %b = ttg.convert_layout %y : tensor<64xf32, #blocked> -> tensor<64xf32, #pairs>
    tt.call @use(%a, %b) : (tensor<64xf32, #pairs>, tensor<64xf32, #pairs>) -> ()
    tt.return
  }
  tt.func public @others(%x: tensor<64xf32, #blocked>) {
    %a = ttg.convert_layout %x : tensor<64xf32, #blocked> -> tensor<64xf32, #ttg.slice<{dim = 1, parent = #parent}>>
    %b = ttg.convert_layout %x : tensor<64xf32, #blocked> -> tensor<64xf32, #linear>
    tt.call @use_others(%a, %b) : (tensor<64xf32, #ttg.slice<{dim = 1, parent = #parent}>>, tensor<64xf32, #linear>) -> ()
    tt.return
  }
  tt.func private @use(%a: tensor<64xf32, #pairs>, %b: tensor<64xf32, #pairs>) attributes {noinline = true} { tt.return }
  tt.func private @use_others(%a: tensor<64xf32, #ttg.slice<{dim = 1, parent = #parent}>>, %b: tensor<64xf32, #linear>) attributes {noinline = true} { tt.return }
}
