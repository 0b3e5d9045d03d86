// RUN: triton-linear-opt %s --mlir-print-op-generic | FileCheck %s
// RUN: triton-linear-opt %s --mlir-print-op-generic | triton-linear-opt - | FileCheck %s

// CHECK: #ll.plan<"shuffle", {clocks = 6.500000e+00 : f64, shuffles = 4 : i64}, ["registers: \22lane=1\22 moves"]>
// CHECK: #ll.plan<"noop", {}, []>
"builtin.module"() ({
  "tt.func"() <{function_type = () -> (), sym_name = "plans"}> ({
    "tt.return"() {a.b = #ll.plan<"shuffle", {shuffles = 4, clocks = 6.5}, ["registers: \"lane=1\" moves"]>} : () -> ()
  }) : () -> ()
  "tt.func"() <{function_type = () -> (), sym_name = "no_op"}> ({
    "tt.return"() {a.b = #ll.plan<"noop", {}, []>} : () -> ()
  }) : () -> ()
}) : () -> ()
