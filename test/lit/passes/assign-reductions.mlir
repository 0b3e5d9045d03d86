// RUN: triton-linear-opt %S/../../data/ttgir/inductor/mean_var_all-2.ttgir --mlir-print-op-generic --linear-select-lowering | FileCheck %s --check-prefix=STOCK
// RUN: triton-linear-opt %S/../../data/ttgir/inductor/mean_var_all-2.ttgir --mlir-print-op-generic --linear-assign-layouts --linear-select-lowering | FileCheck %s --check-prefix=OURS
// RUN: triton-linear-opt %S/../../data/ttgir/inductor/mean_var_all-3.ttgir --mlir-print-op-generic --linear-select-lowering | FileCheck %s --check-prefix=STOCK
// RUN: triton-linear-opt %S/../../data/ttgir/inductor/mean_var_all-3.ttgir --mlir-print-op-generic --linear-assign-layouts --linear-select-lowering | FileCheck %s --check-prefix=OURS

// What a reduction leaves is stored in the layout that Triton finds best for the store, on the other side of an
// exchange through shared memory. In another layout of the store each thread has its own part already, or one of
its neighbours.

// STOCK: "tt.reduce"
// STOCK: "ttg.convert_layout"{{.*}}#ll.plan<"{{warp|cta}}-shared"
// STOCK: "tt.store"

// OURS: ll.assigned
// OURS: "tt.reduce"
// OURS-NOT: #ll.plan<"warp-shared"
// OURS-NOT: #ll.plan<"cta-shared"
// OURS: "tt.store"
