// RUN: not triton-linear verify %s 2>&1 | FileCheck %s
// RUN: not triton-linear verify %s --target=gfx942 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: not triton-linear verify %S/no-such-file.mlir 2>&1 | FileCheck %s --check-prefix=MISSING
// RUN: not triton-linear nothing 2>&1 | FileCheck %s --check-prefix=COMMAND

// CHECK:     verify-errors.mlir:[[# @LINE + 6]]:1: error: target: the module has no attribute 'ttg.target'; say --target=cuda:NUMBER or hip:gfxNAME
// CHECK-NOT: Traceback
// TARGET:    error: target: 'gfx942' is neither cuda:NUMBER nor hip:gfxNAME
// MISSING:   no-such-file.mlir: error: cannot open input file: No such file or directory
// COMMAND:   no 'nothing'; there are explain, diff, view,

module {
  tt.func public @kernel() { tt.return }
}
