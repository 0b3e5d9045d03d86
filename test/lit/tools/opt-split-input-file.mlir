// The parts between markers are compiled one by one; an error in one leaves the others alone.
// RUN: not triton-linear-opt %s --split-input-file > %t.out 2> %t.err
// RUN: FileCheck %s < %t.out
// RUN: FileCheck %s --check-prefix=ERROR < %t.err
// RUN: not triton-linear-opt %s --split-input-file --emit=cubin 2>&1 | FileCheck %s --check-prefix=BINARY

// CHECK:     @first
// CHECK-NOT: second
// CHECK:     // -----
// CHECK:     @third

// ERROR: opt-split-input-file.mlir:25:46: error: undefined symbol alias id 'nothing'
// ERROR-NEXT: tt.func @second(%x: tensor<64xf32, #nothing>)
// ERROR-NEXT: ^

// BINARY: error: emit cubin: not with --split-input-file; binaries cannot be divided

module {
  tt.func @first() { tt.return }
}

// -----

module {
  tt.func @second(%x: tensor<64xf32, #nothing>) { tt.return }
}

// -----

module {
  tt.func @third() { tt.return }
}
