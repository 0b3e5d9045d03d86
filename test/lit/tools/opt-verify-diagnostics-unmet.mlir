// Expectations that are not met, cannot be read, or were not written.
// RUN: not triton-linear-opt %s --mlir-print-op-generic --split-input-file --verify-diagnostics 2>&1 | FileCheck %s
// RUN: not triton-linear-opt %s --mlir-print-op-generic --split-input-file --verify-diagnostics=only-expected 2>&1 | FileCheck %s --check-prefix=ONLY

// CHECK-DAG: :[[# @LINE + 14]]:1: error: expected warning "never said" was not produced
// CHECK-DAG: :[[# @LINE + 14]]:3: error: cannot read this expectation
// CHECK-DAG: :[[# @LINE + 19]]:44: error: unexpected error: undefined symbol alias id 'missing'
// CHECK-DAG: :[[# @LINE + 24]]:1: error: expected error "something else" was not produced
// CHECK-DAG: :[[# @LINE + 24]]:45: error: unexpected error: undefined symbol alias id 'missing'

// ONLY-NOT: unexpected
// ONLY:     expected warning "never said" was not produced
// ONLY-NOT: unexpected
// ONLY:     expected error "something else" was not produced
// ONLY-NOT: unexpected

module {
  tt.func @quiet() { tt.return }
  // expected-warning@-1 {{never said}}
  // expected-error {never said either}
}

// -----

module {
  tt.func @loud(%x: tensor<64xf32, #missing>) { tt.return }
}

// -----

module {
  // expected-error@+1 {{something else}}
  tt.func @other(%x: tensor<64xf32, #missing>) { tt.return }
}
