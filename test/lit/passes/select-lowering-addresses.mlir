// RUN: triton-linear-opt %s --linear-select-lowering --verify-diagnostics
// RUN: triton-linear-opt %s --mlir-print-op-generic --linear-select-lowering 2>/dev/null | FileCheck %s

// Of what leads to an address or a mask, the conversion promises what is known, since Triton's axis analysis does
// not see through our code. Where Triton may know more it stays Triton's; data is ours.

#a = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
#b = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90"} {
tt.func public @kernel(%p: !tt.ptr<i32>, %q: !tt.ptr<i32>, %n: i32) {
  %i = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32, #a>
  // CHECK: ttg.convert_layout{{.*}}ll.plan{{.*}}tt.constancy = dense<1>{{.*}}tt.contiguity = dense<128>{{.*}}tt.divisibility = dense<1073741824>
  %offsets = ttg.convert_layout %i : tensor<128xi32, #a> -> tensor<128xi32, #b>
  %splat = tt.splat %p : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>, #b>
  %pointers = tt.addptr %splat, %offsets : tensor<128x!tt.ptr<i32>, #b>, tensor<128xi32, #b>
  %limit = tt.splat %n : i32 -> tensor<128xi32, #a>
  %inside = arith.cmpi slt, %i, %limit : tensor<128xi32, #a>
  // CHECK: ttg.convert_layout{{.*}}ll.plan{{.*}}tt.constancy = dense<1>
  %mask = ttg.convert_layout %inside : tensor<128xi1, #a> -> tensor<128xi1, #b>
  %lower = arith.constant 0 : i32
  %upper = arith.constant 4 : i32
  %step = arith.constant 1 : i32
  // Carried through a loop, by way of its initial value.
  %start = ttg.convert_layout %i : tensor<128xi32, #a> -> tensor<128xi32, #b>
  %sum:2 = scf.for %k = %lower to %upper step %step iter_args(%at = %start, %total = %offsets) -> (tensor<128xi32, #b>, tensor<128xi32, #b>) : i32 {
    %here = tt.addptr %splat, %at : tensor<128x!tt.ptr<i32>, #b>, tensor<128xi32, #b>
    %x = tt.load %here, %mask : tensor<128x!tt.ptr<i32>, #b>
    %next = arith.addi %at, %offsets : tensor<128xi32, #b>
    scf.yield %next, %x : tensor<128xi32, #b>, tensor<128xi32, #b>
  }
  // Data: what was loaded has no axis information to lose, even on its way to an address.
  %data = ttg.convert_layout %sum#1 : tensor<128xi32, #b> -> tensor<128xi32, #a>
  %loaded = tt.load %pointers : tensor<128x!tt.ptr<i32>, #b>
  %gathered = ttg.convert_layout %loaded : tensor<128xi32, #b> -> tensor<128xi32, #a>
  // Unless the program says something of it.
  %promised = tt.load %pointers {tt.contiguity = dense<4> : tensor<1xi32>} : tensor<128x!tt.ptr<i32>, #b>
  // CHECK: tt.load{{.*}}tt.contiguity
  // CHECK-NEXT: ttg.convert_layout{{.*}}ll.plan{{.*}}tt.contiguity = dense<4>
  %near = ttg.convert_layout %promised : tensor<128xi32, #b> -> tensor<128xi32, #a>
  %base = tt.splat %q : !tt.ptr<i32> -> tensor<128x!tt.ptr<i32>, #a>
  %scattered = tt.addptr %base, %gathered : tensor<128x!tt.ptr<i32>, #a>, tensor<128xi32, #a>
  // Of two numbers the analysis here does not know what divides the smaller one, and Triton does.
  %most = arith.constant dense<64> : tensor<128xi32, #a>
  %smaller = arith.minsi %i, %most : tensor<128xi32, #a>
  // CHECK: ttg.convert_layout{{.*}}ll.stock
  // expected-remark@below {{conversion left to Triton: it leads to an address or a mask of a memory access}}
  %clamped = ttg.convert_layout %smaller : tensor<128xi32, #a> -> tensor<128xi32, #b>
  %behind = tt.addptr %splat, %clamped : tensor<128x!tt.ptr<i32>, #b>, tensor<128xi32, #b>
  %last = tt.load %behind : tensor<128x!tt.ptr<i32>, #b>
  tt.store %behind, %last : tensor<128x!tt.ptr<i32>, #b>
  %placed = tt.addptr %base, %near : tensor<128x!tt.ptr<i32>, #a>, tensor<128xi32, #a>
  tt.store %placed, %data : tensor<128x!tt.ptr<i32>, #a>
  tt.store %scattered, %data : tensor<128x!tt.ptr<i32>, #a>
  tt.return
}
}
