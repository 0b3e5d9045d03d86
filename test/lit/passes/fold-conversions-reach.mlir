// RUN: triton-linear-opt %s --linear-fold-conversions --emit=ttgir | FileCheck %s

// 128 elements on two warps. From #rows, #turned and #far are in the other warp; between those two only a register
// bit and a lane bit change places. #near is #rows with a register bit and a lane bit exchanged.
#rows = #ttg.linear<{register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[64]], block = []}>
#turned = #ttg.linear<{register = [[64]], lane = [[2], [4], [8], [16], [32]], warp = [[1]], block = []}>
#far = #ttg.linear<{register = [[2]], lane = [[64], [4], [8], [16], [32]], warp = [[1]], block = []}>
#near = #ttg.linear<{register = [[2]], lane = [[1], [4], [8], [16], [32]], warp = [[64]], block = []}>

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 2 : i32, "ttg.threads-per-warp" = 32 : i32} {

// The second step stays in its warp; from the start it would be another exchange between warps.
// CHECK-LABEL: @step_that_would_go_farther
// CHECK: [[TURNED:%.*]] = ttg.convert_layout %arg0
// CHECK: ttg.convert_layout [[TURNED]]
tt.func @step_that_would_go_farther(%x: tensor<128xf32, #rows>) -> (tensor<128xf32, #turned>, tensor<128xf32, #far>) {
  %0 = ttg.convert_layout %x : tensor<128xf32, #rows> -> tensor<128xf32, #turned>
  %1 = ttg.convert_layout %0 : tensor<128xf32, #turned> -> tensor<128xf32, #far>
  tt.return %0, %1 : tensor<128xf32, #turned>, tensor<128xf32, #far>
}

// The second step would return from the other warp; from the start it never leaves.
// CHECK-LABEL: @step_that_goes_less_far
// CHECK-COUNT-2: ttg.convert_layout %arg0
tt.func @step_that_goes_less_far(%x: tensor<128xf32, #rows>) -> (tensor<128xf32, #turned>, tensor<128xf32, #near>) {
  %0 = ttg.convert_layout %x : tensor<128xf32, #rows> -> tensor<128xf32, #turned>
  %1 = ttg.convert_layout %0 : tensor<128xf32, #turned> -> tensor<128xf32, #near>
  tt.return %0, %1 : tensor<128xf32, #turned>, tensor<128xf32, #near>
}

}
