// RUN: triton-linear fuzz --count 20 --seed 5 --target cuda:90 --assembly 1 --jobs 2 --save %t.folder | FileCheck %s --check-prefix=CUDA
// RUN: triton-linear verify %t.folder/cuda-90-5-singles-0000.ttgir | FileCheck %s --check-prefix=SAVED
// RUN: triton-linear fuzz --replay %t.folder/cuda-90-5-programs-0000.ttgir | FileCheck %s --check-prefix=REPLAY
// RUN: triton-linear fuzz --count 8 --seed 5 --target hip:gfx942 --target cuda:80 --only singles | FileCheck %s --check-prefix=BOTH
// RUN: triton-linear fuzz --count 6 --seed 5 --target hip:gfx90a --only singles --assembly all | FileCheck %s --check-prefix=ALL
// RUN: not triton-linear fuzz --assembly some 2>&1 | FileCheck %s --check-prefix=SOME
// RUN: not triton-linear fuzz --count -1 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: not triton-linear fuzz --jobs 0 2>&1 | FileCheck %s --check-prefix=JOBS
// RUN: not triton-linear fuzz --target cuda:1 2>&1 | FileCheck %s --check-prefix=TARGET
// RUN: not triton-linear fuzz --replay %s 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: sed 's/public @program/public @changed/' %t.folder/cuda-90-5-programs-0000.ttgir > %t.changed
// RUN: not triton-linear fuzz --replay %t.changed 2>&1 | FileCheck %s --check-prefix=CHANGED
// RUN: not triton-linear fuzz --replay %t.missing 2>&1 | FileCheck %s --check-prefix=MISSING

// CUDA:      cuda:90, seed 5: {{.*}}; {{[0-9]+}} modules, {{[1-9]}} of them programs, {{[1-9]}} assembled
// CUDA-NEXT: {{[0-9]+}} conversions, 0 wrong, 0 races; {{[0-9]+}} through shared memory, 0 accesses above the minimum of wavefronts

// SAVED: {{[0-9]+}} conversion{{s?}} verified, 0 wrong

// REPLAY: cuda:90, {{[1248]}} warps, {{.*}}; 1 modules, 1 of them programs
// REPLAY: {{[0-9]+}} conversion{{s?}}, 0 wrong, 0 races

// BOTH:      hip:gfx942, seed 5: {{.*}} 1 modules, 0 of them programs
// BOTH-NEXT: cuda:80, seed 5: {{.*}} 1 modules, 0 of them programs
// BOTH-NEXT: all 2 targets: {{.*}} 2 modules
// BOTH-NEXT: 8 conversions, 0 wrong, 0 races

// ALL:      hip:gfx90a, seed 5: {{.*}} 1 modules, 0 of them programs, 1 assembled with 6 conversions
// ALL-NEXT: 6 conversions, 0 wrong, 0 races

// SOME:    error: argument --assembly: 'some' is neither a number nor 'all'
// COUNT:   error: count: -1 is negative
// JOBS:    error: jobs: 0 is not a number of processes
// TARGET:  error: unknown target 'cuda:1'; known: cuda:80
// OTHER:   fuzz.mlir:1:1: error: it has no first line that says what it must give; try 'triton-linear verify'
// CHANGED: error: the module is not the program in its first line
// MISSING: error: cannot open input file: No such file or directory
