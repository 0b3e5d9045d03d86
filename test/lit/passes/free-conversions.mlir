// RUN: triton-linear-opt %s --split-input-file --linear-free-conversions --verify-diagnostics
// RUN: triton-linear-opt %s --mlir-print-op-generic --split-input-file --linear-free-conversions | FileCheck %s --check-prefix=PASS
// RUN: triton-linear-opt %s --split-input-file --linear-free-conversions --linear-outline-conversions --emit=ptx | FileCheck %s --check-prefix=PTX

// 128 elements on two warps; between #rows and #turned they change warps, so a conversion needs shared memory.
#rows = #ttg.linear<{register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[64]], block = []}>
#turned = #ttg.linear<{register = [[64]], lane = [[2], [4], [8], [16], [32]], warp = [[1]], block = []}>

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 2 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90", ttg.shared = 0 : i32} {
// Data: nothing moves, and all that was loaded is stored.
// PASS-LABEL: "data"
// PASS: "ttg.convert_layout"{{.*}}#ll.plan<"free"
// PTX-LABEL: .entry data(
// PTX: ld.global
// PTX-NOT: shared
// PTX-NOT: bar.sync
// PTX-NOT: shfl
// PTX-COUNT-2: st.global
// PTX: ret;
tt.func public @data(%p: !tt.ptr<f32>) {
  %splat = tt.splat %p : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>, #rows>
  %range = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32, #rows>
  %at = tt.addptr %splat, %range : tensor<128x!tt.ptr<f32>, #rows>, tensor<128xi32, #rows>
  %x = tt.load %at : tensor<128x!tt.ptr<f32>, #rows>
  %y = ttg.convert_layout %x : tensor<128xf32, #rows> -> tensor<128xf32, #turned>
  %splat_ = tt.splat %p : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>, #turned>
  %range_ = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32, #turned>
  %at_ = tt.addptr %splat_, %range_ : tensor<128x!tt.ptr<f32>, #turned>, tensor<128xi32, #turned>
  tt.store %at_, %y : tensor<128x!tt.ptr<f32>, #turned>
  tt.return
}
}

// -----

#rows = #ttg.linear<{register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[64]], block = []}>
#turned = #ttg.linear<{register = [[64]], lane = [[2], [4], [8], [16], [32]], warp = [[1]], block = []}>

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 2 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90", ttg.shared = 0 : i32} {
// A float that becomes an offset, by way of a loop; and integers.
// PASS-LABEL: "places"
// PASS-COUNT-2: "ttg.convert_layout"{{.*}}ll.stock
// PTX-LABEL: .entry places(
// PTX-COUNT-3: bar.sync
tt.func public @places(%p: !tt.ptr<f32>, %n: i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %splat = tt.splat %p : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>, #rows>
  %range = tt.make_range {end = 128 : i32, start = 0 : i32} : tensor<128xi32, #rows>
  %at = tt.addptr %splat, %range : tensor<128x!tt.ptr<f32>, #rows>, tensor<128xi32, #rows>
  %x = tt.load %at : tensor<128x!tt.ptr<f32>, #rows>
  // expected-remark@below {{conversion left to Triton: it leads to an address, a mask, an index or a branch}}
  %y = ttg.convert_layout %x : tensor<128xf32, #rows> -> tensor<128xf32, #turned>
  %z = scf.for %i = %c0 to %n step %c1 iter_args(%sum = %y) -> (tensor<128xf32, #turned>) : i32 {
    %more = arith.addf %sum, %y : tensor<128xf32, #turned>
    scf.yield %more : tensor<128xf32, #turned>
  }
  %offsets = arith.fptosi %z : tensor<128xf32, #turned> to tensor<128xi32, #turned>
  %splat_ = tt.splat %p : !tt.ptr<f32> -> tensor<128x!tt.ptr<f32>, #turned>
  %at_ = tt.addptr %splat_, %offsets : tensor<128x!tt.ptr<f32>, #turned>, tensor<128xi32, #turned>
  %bits = tt.bitcast %x : tensor<128xf32, #rows> -> tensor<128xi32, #rows>
  // expected-remark@below {{conversion left to Triton: it converts i32, and only conversions of floats are left out}}
  %moved = ttg.convert_layout %bits : tensor<128xi32, #rows> -> tensor<128xi32, #turned>
  %floats = tt.bitcast %moved : tensor<128xi32, #turned> -> tensor<128xf32, #turned>
  tt.store %at_, %floats : tensor<128x!tt.ptr<f32>, #turned>
  tt.return
}
}

// -----

#rows = #ttg.linear<{register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [[64]], block = []}>
#turned = #ttg.linear<{register = [[64]], lane = [[2], [4], [8], [16], [32]], warp = [[1]], block = []}>
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 2 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:90", ttg.shared = 0 : i32} {
// A float that decides a branch, by way of shared memory.
// PASS-LABEL: "branches"
// PASS: "ttg.convert_layout"{{.*}}ll.stock
// PTX-LABEL: .entry branches(
tt.func public @branches(%p: !tt.ptr<f32>, %x: f32) {
  %zero = arith.constant 0.0 : f32
  %splat = tt.splat %x : f32 -> tensor<128xf32, #rows>
  // expected-remark@below {{conversion left to Triton: it leads to an address, a mask, an index or a branch}}
  %y = ttg.convert_layout %splat : tensor<128xf32, #rows> -> tensor<128xf32, #turned>
  %memory = ttg.local_alloc : () -> !ttg.memdesc<128xf32, #shared, #ttg.shared_memory, mutable>
  ttg.local_store %y, %memory : tensor<128xf32, #turned> -> !ttg.memdesc<128xf32, #shared, #ttg.shared_memory, mutable>
  %z = ttg.local_load %memory : !ttg.memdesc<128xf32, #shared, #ttg.shared_memory, mutable> -> tensor<128xf32, #turned>
  %sum = "tt.reduce"(%z) <{axis = 0 : i32}> ({
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %b : f32
    tt.reduce.return %c : f32
  }) : (tensor<128xf32, #turned>) -> f32
  %taken = arith.cmpf ogt, %sum, %zero : f32
  scf.if %taken {
    tt.store %p, %sum : !tt.ptr<f32>
  }
  tt.return
}
}
