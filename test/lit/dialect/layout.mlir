// RUN: triton-linear-opt %s --mlir-print-op-generic | FileCheck %s
// RUN: triton-linear-opt %s | triton-linear-opt - --mlir-print-op-generic | FileCheck %s

// CHECK-LABEL: "tt.func"
// Input dimensions are printed in the order of the alphabet.
// CHECK: a.distributed = #ll.layout<{block = [], lane = {{\[\[}}1, 0], [2, 0]], register = {{\[\[}}0, 1]], warp = {{\[\[}}0, 0]]}, [4, 2]>
// CHECK-SAME: a.nothing = #ll.layout<{}, []>
// CHECK-SAME: a.shared = #ll.layout<{block = [], offset = {{\[\[}}1], [2]]}, [4]>
"builtin.module"() ({
  "tt.func"() <{function_type = () -> (), sym_name = "layouts"}> ({
    "tt.return"() : () -> ()
  }) {
    a.distributed = #ll.layout<{register = [[0, 1]], lane = [[1, 0], [2, 0]], warp = [[0, 0]], block = []}, [4, 2]>,
    a.shared = #ll.layout<{offset = [[1], [2]], block = []}, [4]>,
    a.nothing = #ll.layout<{}, []>
  } : () -> ()
}) : () -> ()
