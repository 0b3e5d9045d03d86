// RUN: triton-linear-opt %S/../../data/ttgir/attention/ampere.ttgir --mlir-print-op-generic --linear-permute-contraction 2>&1 | FileCheck %s
// RUN: triton-linear-opt %S/../../data/ttgir/attention/ampere.ttgir --linear-permute-contraction --emit=ttgir | FileCheck %s --check-prefix=TRITON
// RUN: triton-linear-opt %S/../../data/ttgir/attention/running_sum_transposed.ttgir --mlir-print-op-generic --linear-permute-contraction 2>&1 | FileCheck %s --check-prefix=LEFT

// The numbers of K's rows: bit 0 stays, bits 1 and 2 go up by one, bit 3 to bit 1, bits 4 and 5 stay.

// CHECK: remark: the contracted axis of 128x64 is put in another order: its bits [0, 2, 3, 1, 4, 5]; {{.*}} clocks before, 0.0 after
// CHECK: ll.permuted
// CHECK: [[ROWS:%.*]] = "tt.make_range"() <{end = 64
// CHECK: dense<49>
// CHECK: dense<6>
// CHECK: "arith.shli"
// CHECK: dense<8>
// CHECK: "arith.shrui"
// CHECK: "scf.for"
// CHECK: [[SPLIT:%.*]] = "tt.reshape"(%{{.*}}){{.*}} -> tensor<128x4x2x4x2xf16
// CHECK: [[MOVED:%.*]] = "tt.trans"([[SPLIT]]) {order = array<i32: 0, 1, 3, 2, 4>}
// CHECK: [[ORDERED:%.*]] = "tt.reshape"([[MOVED]]){{.*}} -> tensor<128x64xf16
// CHECK: "ttg.convert_layout"([[ORDERED]])

// TRITON: tt.reshape %{{.*}} : tensor<128x4x4x2x2xf16, #{{.*}}> -> tensor<128x64xf16

// LEFT: remark: the contracted axis of 64x64 stays in order: before it 'tt.scan' needs the order; behind it the vectors that 'ttg.async_copy_global_to_local' says it has would be others
// LEFT-NOT: ll.permuted
