// RUN: triton-linear-opt %s --mlir-print-op-generic --linear-select-lowering | FileCheck %s
// RUN: triton-linear-opt %s --mlir-print-op-generic --pass-pipeline='builtin.module(linear-select-lowering{target=cuda:80 scratch-limit=4096})' | FileCheck %s --check-prefix=LIMIT

// 8x32 elements; a cell is warp:lane, its rows are registers of that lane.
//
//            #rows                 #turned               #columns
//         col 0    1  ... 31    col 0    1  ... 31    col 0    1  ...  31
// row 0      0:0  0:1    0:31      0:0  0:1    0:31      0:0  0:8
// row 1      0:0  0:1    0:31      0:0  0:1    0:31      0:1  0:9
// row 4      1:0  1:1    1:31      1:0  1:1    1:31      0:4  0:12
#rows = #ttg.linear<{register = [[1, 0], [2, 0]], lane = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], warp = [[4, 0]], block = []}>
#renamed = #ttg.blocked<{sizePerThread = [4, 1], threadsPerWarp = [1, 32], warpsPerCTA = [2, 1], order = [0, 1]}>
#turned = #ttg.linear<{register = [[2, 0], [1, 0]], lane = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], warp = [[4, 0]], block = []}>
#exchanged = #ttg.linear<{register = [[0, 1], [2, 0]], lane = [[1, 0], [0, 2], [0, 4], [0, 8], [0, 16]], warp = [[4, 0]], block = []}>
#columns = #ttg.linear<{register = [[0, 8], [0, 16]], lane = [[1, 0], [2, 0], [4, 0], [0, 1], [0, 2]], warp = [[0, 4]], block = []}>
// The same, eight times below each other in further registers.
#tall_rows = #ttg.linear<{register = [[1, 0], [2, 0], [8, 0], [16, 0], [32, 0]], lane = [[0, 1], [0, 2], [0, 4], [0, 8], [0, 16]], warp = [[4, 0]], block = []}>
#tall_columns = #ttg.linear<{register = [[0, 8], [0, 16], [8, 0], [16, 0], [32, 0]], lane = [[1, 0], [2, 0], [4, 0], [0, 1], [0, 2]], warp = [[0, 4]], block = []}>

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 2 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"} {

// CHECK-LABEL: sym_name = "same_map"
// CHECK: "ttg.convert_layout"{{.*}}ll.plan = #ll.plan<"noop", {clocks = 0.000000e+00 : f64, scratch_bytes = 0 : i64}, []>
tt.func @same_map(%x: tensor<8x32xf32, #rows>) -> tensor<8x32xf32, #renamed> {
  %0 = ttg.convert_layout %x : tensor<8x32xf32, #rows> -> tensor<8x32xf32, #renamed>
  tt.return %0 : tensor<8x32xf32, #renamed>
}

// Nothing is cheaper, so that no rival says why it is not.
// CHECK-LABEL: sym_name = "registers_change_places"
// CHECK: "ttg.convert_layout"{{.*}}ll.plan = #ll.plan<"registers",
// CHECK-SAME: []>
tt.func @registers_change_places(%x: tensor<8x32xf32, #rows>) -> tensor<8x32xf32, #turned> {
  %0 = ttg.convert_layout %x : tensor<8x32xf32, #rows> -> tensor<8x32xf32, #turned>
  tt.return %0 : tensor<8x32xf32, #turned>
}

// CHECK-LABEL: sym_name = "register_and_lane_bits_change_places"
// CHECK: "ttg.convert_layout"{{.*}}ll.plan = #ll.plan<"shuffle", {{.*}}shuffles = {{[1-9][0-9]*}} : i64
// CHECK-SAME: "registers: {{[^"]*}}lane=1{{[^"]*}}"
tt.func @register_and_lane_bits_change_places(%x: tensor<8x32xf32, #rows>) -> tensor<8x32xf32, #exchanged> {
  %0 = ttg.convert_layout %x : tensor<8x32xf32, #rows> -> tensor<8x32xf32, #exchanged>
  tt.return %0 : tensor<8x32xf32, #exchanged>
}

// CHECK-LABEL: sym_name = "warps_exchange"
// CHECK: "ttg.convert_layout"{{.*}}ll.plan = #ll.plan<"cta-shared", {{.*}}scratch_bytes = 1024 : i64
// CHECK-SAME: "shuffle: {{[^"]*}}warp
// CHECK-NOT: ll.scratch_limit
tt.func @warps_exchange(%x: tensor<8x32xf32, #rows>) -> tensor<8x32xf32, #columns> {
  %0 = ttg.convert_layout %x : tensor<8x32xf32, #rows> -> tensor<8x32xf32, #columns>
  tt.return %0 : tensor<8x32xf32, #columns>
}

// 64x32 elements of four bytes are 8 KB; with less scratch they are exchanged in rounds, which takes more barriers.
// CHECK-LABEL: sym_name = "rounds"
// CHECK: "ttg.convert_layout"{{.*}}ll.plan = #ll.plan<"cta-shared", {barriers = 2 : i64, {{.*}}scratch_bytes = 8192 : i64
// CHECK-NOT: ll.scratch_limit
// LIMIT-LABEL: sym_name = "rounds"
// LIMIT: "ttg.convert_layout"{{.*}}ll.plan = #ll.plan<"cta-shared", {barriers = 4 : i64, {{.*}}scratch_bytes = 4096 : i64
// LIMIT-SAME: ll.scratch_limit = 4096 : i64
tt.func @rounds(%x: tensor<64x32xf32, #tall_rows>) -> tensor<64x32xf32, #tall_columns> {
  %0 = ttg.convert_layout %x : tensor<64x32xf32, #tall_rows> -> tensor<64x32xf32, #tall_columns>
  tt.return %0 : tensor<64x32xf32, #tall_columns>
}

// CHECK-LABEL: sym_name = "element_types"
// CHECK: "ttg.convert_layout"{{.*}}#ll.plan<"cta-shared", {{.*}}scratch_bytes = 256 : i64
// CHECK: "ttg.convert_layout"{{.*}}#ll.plan<"cta-shared", {{.*}}scratch_bytes = 2048 : i64
tt.func @element_types(%x: tensor<8x32xi1, #rows>, %y: tensor<8x32x!tt.ptr<bf16>, #rows>)
    -> (tensor<8x32xi1, #columns>, tensor<8x32x!tt.ptr<bf16>, #columns>) {
  %0 = ttg.convert_layout %x : tensor<8x32xi1, #rows> -> tensor<8x32xi1, #columns>
  %1 = ttg.convert_layout %y : tensor<8x32x!tt.ptr<bf16>, #rows> -> tensor<8x32x!tt.ptr<bf16>, #columns>
  tt.return %0, %1 : tensor<8x32xi1, #columns>, tensor<8x32x!tt.ptr<bf16>, #columns>
}

}
