// An input without a module is said to be one; a byte order mark in front of a module does not count.
// RUN: not triton-linear-opt /dev/null 2>&1 | FileCheck %s --check-prefix=NULL
// RUN: grep RUN %s > %t.comments.mlir
// RUN: not triton-linear-opt %t.comments.mlir 2>&1 | FileCheck %s --check-prefix=COMMENTS
// RUN: not triton-linear verify /dev/null 2>&1 | FileCheck %s --check-prefix=NULL
// RUN: python -c "import sys; open(sys.argv[2], 'w', encoding='utf-8-sig').write(open(sys.argv[1]).read())" %s %t.mark.mlir
// RUN: triton-linear-opt %t.mark.mlir | FileCheck %s --check-prefix=MARK

// NULL:     /dev/null: error: there is no module in the input
// NULL-NOT: error
// COMMENTS: comments.mlir: error: there is no module in the input
// MARK:     @kernel

module {
  tt.func public @kernel() {
    tt.return
  }
}
