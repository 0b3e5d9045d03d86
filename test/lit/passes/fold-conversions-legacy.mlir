// Between unlike kinds of encodings nothing is folded that is the same map; between equal types, and of conversions, it is.
// RUN: triton-linear-opt %s --linear-fold-conversions=lowering=legacy --emit=ttgir | FileCheck %s
// RUN: triton-linear-opt %s --linear-fold-conversions --emit=ttgir | FileCheck %s --check-prefix=LINEAR

#parent = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [32, 1], warpsPerCTA = [1, 1], order = [1, 0]}>
#slice = #ttg.slice<{dim = 1, parent = #parent}>
#line = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  // CHECK-LABEL:  @stored
  // CHECK:        ttg.convert_layout
  // LINEAR-LABEL: @stored
  // LINEAR-NOT:   ttg.convert_layout
  tt.func public @stored(%x: tensor<32xf32, #slice>) {
    %y = ttg.convert_layout %x : tensor<32xf32, #slice> -> tensor<32xf32, #line>
    %z = ttg.local_alloc %y : (tensor<32xf32, #line>) -> !ttg.memdesc<32xf32, #shared, #ttg.shared_memory, mutable>
    ttg.local_dealloc %z : !ttg.memdesc<32xf32, #shared, #ttg.shared_memory, mutable>
    tt.return
  }

  // CHECK-LABEL:  @there_and_back
  // CHECK-NOT:    ttg.convert_layout
  // CHECK:        tt.return
  tt.func public @there_and_back(%x: tensor<32xf32, #slice>) -> tensor<32xf32, #slice> {
    %y = ttg.convert_layout %x : tensor<32xf32, #slice> -> tensor<32xf32, #line>
    %z = ttg.convert_layout %y : tensor<32xf32, #line> -> tensor<32xf32, #slice>
    tt.return %z : tensor<32xf32, #slice>
  }
}
