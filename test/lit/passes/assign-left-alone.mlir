// RUN: triton-linear-opt %s --mlir-print-op-generic --split-input-file --linear-assign-layouts --verify-diagnostics
// RUN: not triton-linear-opt %s --mlir-print-op-generic --split-input-file --linear-assign-layouts 2>/dev/null | FileCheck %s

// A module that changed would have ll.assigned before its other attributes.

// What CTAs of a cluster reduce together keeps its layout.
#a = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0], CGALayout = [[1]]}>
#b = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [1], order = [0], CGALayout = [[1]]}>

// CHECK: module attributes {"ttg.num-ctas"
// CHECK-NEXT: sym_name = "across_ctas"
// CHECK: ttg.convert_layout
// expected-remark@below {{layouts stay as they are}}
// expected-remark@below {{group 1, 256 (reduce across CTAs): pinned to #ttg.blocked}}
// expected-note@below {{clocks of memory}}
// expected-remark@below {{conversion of 256xf32}}
module attributes {"ttg.num-ctas" = 2 : i32, "ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"} {
tt.func @across_ctas(%x: tensor<256xf32, #a>) -> f32 {
  %0 = ttg.convert_layout %x : tensor<256xf32, #a> -> tensor<256xf32, #b>
  %1 = "tt.reduce"(%0) <{axis = 0 : i32}> ({
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    tt.reduce.return %s : f32
  }) : (tensor<256xf32, #b>) -> f32
  tt.return %1 : f32
}
}

// -----

// Tensors that a region captures keep their layouts, on both sides.
#a = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#b = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>

// CHECK: module attributes {"ttg.num-ctas"
// CHECK-NEXT: sym_name = "captured"
// CHECK: ttg.convert_layout
// CHECK: ttg.convert_layout
// expected-remark@below {{layouts stay as they are}}
// expected-remark@below {{group 1, 512 (ttg.warp_specialize}}
// expected-note@below {{clocks of memory}}
// expected-remark@below {{conversion of 512xf32}}
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:100"} {
tt.func @captured(%x: tensor<512xf32, #a>) {
  %0 = ttg.convert_layout %x : tensor<512xf32, #a> -> tensor<512xf32, #b>
  ttg.warp_specialize(%0)
  default {
    ttg.warp_yield
  }
  partition0(%y: tensor<512xf32, #b>) num_warps(4) {
    // expected-remark@below {{layouts of partition 0 stay as they are}}
    // expected-remark@below {{group 1, 512 (tt.print): pinned to #ttg.blocked}}
    // expected-note@below {{clocks of memory}}
    // expected-remark@below {{conversion of 512xf32}}
    %1 = ttg.convert_layout %y : tensor<512xf32, #b> -> tensor<512xf32, #a>
    tt.print "y" {hex = false, isSigned = array<i32: 0>} : %1 : tensor<512xf32, #a>
    ttg.warp_return
  } : (tensor<512xf32, #b>) -> ()
  tt.return
}
}

// -----

// Which warps run a function that a region calls depends on the call.
#a = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#b = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>

// CHECK: module attributes {"ttg.num-ctas"
// CHECK-NEXT: sym_name = "calling"
// CHECK: ttg.convert_layout
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:100"} {
tt.func @calling() {
  tt.call @called_beside() : () -> ()
  ttg.warp_specialize()
  default {
    ttg.warp_yield
  }
  partition0() num_warps(4) {
    tt.call @called() : () -> ()
    ttg.warp_return
  } : () -> ()
  tt.return
}
// expected-remark@below {{layouts of the function are not assigned: it is called in a module with warp-specialised regions, and its callers say which warps run it}}
tt.func private @called() attributes {noinline = true} {
  %x = arith.constant dense<1.0> : tensor<512xf32, #a>
  %0 = ttg.convert_layout %x : tensor<512xf32, #a> -> tensor<512xf32, #b>
  tt.print "x" {hex = false, isSigned = array<i32: 0>} : %0 : tensor<512xf32, #b>
  tt.return
}
// expected-remark@below {{layouts of the function are not assigned: it is called in a module with warp-specialised regions, and its callers say which warps run it}}
tt.func private @called_beside() attributes {noinline = true} {
  %x = arith.constant dense<1.0> : tensor<512xf32, #a>
  %0 = ttg.convert_layout %x : tensor<512xf32, #a> -> tensor<512xf32, #b>
  tt.print "x" {hex = false, isSigned = array<i32: 0>} : %0 : tensor<512xf32, #b>
  tt.return
}
}

// -----

// Regions of other GPUs than NVIDIA's are left alone.
#a = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [64], warpsPerCTA = [4], order = [0]}>
#b = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [64], warpsPerCTA = [4], order = [0]}>

// CHECK: module attributes {"ttg.num-ctas"
// CHECK-NEXT: sym_name = "other_gpu"
// CHECK: ttg.convert_layout
// expected-remark@below {{layouts are not assigned: it has warp-specialised regions, which are known for NVIDIA GPUs alone}}
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 64 : i32, ttg.target = "hip:gfx942"} {
tt.func @other_gpu(%x: tensor<1024xf32, #a>) -> tensor<1024xf32, #b> {
  %0 = ttg.convert_layout %x : tensor<1024xf32, #a> -> tensor<1024xf32, #b>
  ttg.warp_specialize()
  default {
    ttg.warp_yield
  }
  partition0() num_warps(4) {
    ttg.warp_return
  } : () -> ()
  tt.return %0 : tensor<1024xf32, #b>
}
}

// -----

// Nothing to decide: no remark either.
#a = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>

// CHECK: module attributes {"ttg.num-ctas"
// CHECK-NEXT: sym_name = "no_conversions"
// CHECK: "tt.load"{{.*}}sizePerThread = [1]
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"} {
tt.func @no_conversions(%p: !tt.ptr<f32> {tt.divisibility = 16 : i32}) {
  %s = tt.splat %p : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>, #a>
  %r = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32, #a>
  %q = tt.addptr %s, %r : tensor<128x!tt.ptr<f32>, #a>, tensor<128xi32, #a>
  %x = tt.load %q : tensor<128x!tt.ptr<f32>, #a>
  tt.store %q, %x : tensor<128x!tt.ptr<f32>, #a>
  tt.return
}
}

// -----

// All that a layout could be chosen for comes from outside and goes there.
#a = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
#b = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>

// CHECK: module attributes {"ttg.num-ctas"
// CHECK-NEXT: sym_name = "pinned"
// CHECK: ttg.convert_layout
// expected-remark@below {{layouts stay as they are}}
// expected-remark@below {{group 1, 128 (tt.return): pinned to #ttg.blocked}}
// expected-note@below {{clocks of memory}}
// expected-remark@below {{conversion of 128xf32}}
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"} {
tt.func @pinned(%x: tensor<128xf32, #a>) -> tensor<128xf32, #b> {
  %0 = ttg.convert_layout %x : tensor<128xf32, #a> -> tensor<128xf32, #b>
  tt.return %0 : tensor<128xf32, #b>
}
}

// -----

#a = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
#b = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>

// expected-error@below {{linear-assign-layouts: unknown target 'cuda:12'}}
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:12"} {
tt.func @unknown_target(%x: tensor<128xf32, #a>) -> tensor<128xf32, #b> {
  %0 = ttg.convert_layout %x : tensor<128xf32, #a> -> tensor<128xf32, #b>
  tt.return %0 : tensor<128xf32, #b>
}
}
