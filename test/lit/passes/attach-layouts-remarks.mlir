// RUN: triton-linear-opt %s --linear-attach-layouts --split-input-file --verify-diagnostics
// RUN: triton-linear-opt %s --mlir-print-op-generic --linear-attach-layouts --split-input-file 2>/dev/null | FileCheck %s

// An encoding that is not known is a reason to leave a value alone, not to fail; it is said once per type.
"builtin.module"() ({
  // expected-remark@below {{no layout for 'tensor<4xf32, #ttg.novel<{}>>': unknown encoding '#ttg.novel'}}
  "tt.func"() <{function_type = (tensor<4xf32, #ttg.novel<{}>>) -> (), sym_name = "unknown_encoding"}> ({
  ^bb0(%x: tensor<4xf32, #ttg.novel<{}>>):
    // CHECK: "arith.addf"{{.*}}ll.results = ["unknown encoding '#ttg.novel'"]
    %0 = "arith.addf"(%x, %x) : (tensor<4xf32, #ttg.novel<{}>>, tensor<4xf32, #ttg.novel<{}>>) -> tensor<4xf32, #ttg.novel<{}>>
    "tt.return"() : () -> ()
  }) : () -> ()
}) : () -> ()

// -----

"builtin.module"() ({
  "tt.func"() <{function_type = (f32) -> (), sym_name = "no_encoding"}> ({
  ^bb0(%x: f32):
    // CHECK: "tt.splat"{{.*}}ll.results = ["the tensor has no encoding"]
    // expected-remark@below {{no layout for 'tensor<4xf32>': the tensor has no encoding}}
    %0 = "tt.splat"(%x) : (f32) -> tensor<4xf32>
    "tt.return"() : () -> ()
  }) : () -> ()
}) : () -> ()

// -----

"builtin.module"() ({
  "tt.func"() <{function_type = () -> (), sym_name = "odd_memory"}> ({
    // expected-remark@below {{no layout for '!ttg.memdesc<what>': cannot read the type '!ttg.memdesc<what>'}}
    %0 = "ttg.local_alloc"() : () -> !ttg.memdesc<what>
    "tt.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
