// RUN: triton-linear fuzz --count 8 --seed 5 --target cuda:90 --assembly 1 --save %t.folder | FileCheck %s --check-prefix=CUDA
// RUN: triton-linear verify %t.folder/cuda-90-5-000.ttgir | FileCheck %s --check-prefix=SAVED
// RUN: triton-linear fuzz --count 8 --seed 5 --target hip:gfx942 --assembly 2 | FileCheck %s --check-prefix=HIP
// RUN: not triton-linear fuzz --count -1 2>&1 | FileCheck %s --check-prefix=COUNT
// RUN: not triton-linear fuzz --target cuda:1 2>&1 | FileCheck %s --check-prefix=TARGET

// CUDA:      cuda:90, seed 5: {{.*}}; 4 modules assembled
// CUDA-NEXT: 8 conversions, 0 wrong, 0 races; {{[0-9]+}} CTA-scope conversions of 32-bit elements, 0 accesses above the minimum of wavefronts

// SAVED: {{[0-9]+}} conversion{{s?}} verified, 0 wrong

// HIP:      hip:gfx942, seed 5: {{.*}}; 2 modules assembled
// HIP-NEXT: 8 conversions, 0 wrong, 0 races; {{[0-9]+}} CTA-scope conversions of 32-bit elements, 0 accesses above the minimum of wavefronts

// COUNT:  error: count: -1 is negative
// TARGET: error: unknown target 'cuda:1'; known: cuda:80
