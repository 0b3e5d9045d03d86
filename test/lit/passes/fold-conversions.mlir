// RUN: triton-linear-opt %s --linear-fold-conversions --emit=ttgir | FileCheck %s

// 64 elements on 32 lanes:  element    0  1  2  3  ...  31 32 33 ... 63
//          #pairs, #linear  lane       0  0  1  1  ...  15 16 16 ... 31
//                           register   0  1  0  1  ...   1  0  1 ...  1
//                    #comb  lane       0  1  2  3  ...  31  0  1 ... 31
//                           register   0  0  0  0  ...   0  1  1 ...  1
// #swapped is #pairs with the register bit and the highest lane bit exchanged.
#pairs = #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
#comb = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
#linear = #ttg.linear<{register = [[1]], lane = [[2], [4], [8], [16], [32]], warp = [], block = []}>
#swapped = #ttg.linear<{register = [[32]], lane = [[2], [4], [8], [16], [1]], warp = [], block = []}>
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 32 : i32} {

// CHECK-DAG: [[PAIRS:#.*]] = #ttg.blocked<{sizePerThread = [2]
// CHECK-DAG: [[COMB:#.*]] = #ttg.blocked<{sizePerThread = [1]
// CHECK-DAG: [[LINEAR:#.*]] = #ttg.linear<{register = {{\[\[}}1]]
// CHECK-DAG: [[SWAPPED:#.*]] = #ttg.linear<{register = {{\[\[}}32]]

// CHECK-LABEL: @conversion_to_its_own_type
// CHECK-NOT: ttg.convert_layout
// CHECK: tt.return %arg0
tt.func @conversion_to_its_own_type(%x: tensor<64xf32, #pairs>) -> tensor<64xf32, #pairs> {
  %0 = ttg.convert_layout %x : tensor<64xf32, #pairs> -> tensor<64xf32, #pairs>
  tt.return %0 : tensor<64xf32, #pairs>
}

// CHECK-LABEL: @there_and_back
// CHECK-NOT: ttg.convert_layout
// CHECK: tt.return %arg0
tt.func @there_and_back(%x: tensor<64xf32, #pairs>) -> tensor<64xf32, #pairs> {
  %0 = ttg.convert_layout %x : tensor<64xf32, #pairs> -> tensor<64xf32, #comb>
  %1 = ttg.convert_layout %0 : tensor<64xf32, #comb> -> tensor<64xf32, #pairs>
  tt.return %1 : tensor<64xf32, #pairs>
}

// CHECK-LABEL: @chain_whose_inner_conversion_dies
// CHECK: [[ONCE:%.*]] = ttg.convert_layout %arg0 : tensor<64xf32, [[PAIRS]]> -> tensor<64xf32, [[SWAPPED]]>
// CHECK-NOT: ttg.convert_layout
// CHECK: tt.return [[ONCE]]
tt.func @chain_whose_inner_conversion_dies(%x: tensor<64xf32, #pairs>) -> tensor<64xf32, #swapped> {
  %0 = ttg.convert_layout %x : tensor<64xf32, #pairs> -> tensor<64xf32, #comb>
  %1 = ttg.convert_layout %0 : tensor<64xf32, #comb> -> tensor<64xf32, #swapped>
  tt.return %1 : tensor<64xf32, #swapped>
}

// From #swapped to #linear is a move between lanes; from #pairs to #linear nothing moves.
// CHECK-LABEL: @chain_that_is_a_no_op_as_a_whole
// CHECK: [[USED:%.*]] = ttg.convert_layout %arg0 : tensor<64xf32, [[PAIRS]]> -> tensor<64xf32, [[SWAPPED]]>
// CHECK: [[SAME:%.*]] = ttg.convert_layout %arg0 : tensor<64xf32, [[PAIRS]]> -> tensor<64xf32, [[LINEAR]]>
// CHECK: tt.return [[USED]], [[SAME]]
tt.func @chain_that_is_a_no_op_as_a_whole(%x: tensor<64xf32, #pairs>)
    -> (tensor<64xf32, #swapped>, tensor<64xf32, #linear>) {
  %0 = ttg.convert_layout %x : tensor<64xf32, #pairs> -> tensor<64xf32, #swapped>
  %1 = ttg.convert_layout %0 : tensor<64xf32, #swapped> -> tensor<64xf32, #linear>
  tt.return %0, %1 : tensor<64xf32, #swapped>, tensor<64xf32, #linear>
}

// The second step costs nothing after the first, but as much as it if taken from the start.
// CHECK-LABEL: @chain_with_a_cheap_second_step
// CHECK: [[FIRST:%.*]] = ttg.convert_layout %arg0
// CHECK: ttg.convert_layout [[FIRST]]
tt.func @chain_with_a_cheap_second_step(%x: tensor<64xf32, #comb>)
    -> (tensor<64xf32, #pairs>, tensor<64xf32, #linear>) {
  %0 = ttg.convert_layout %x : tensor<64xf32, #comb> -> tensor<64xf32, #pairs>
  %1 = ttg.convert_layout %0 : tensor<64xf32, #pairs> -> tensor<64xf32, #linear>
  tt.return %0, %1 : tensor<64xf32, #pairs>, tensor<64xf32, #linear>
}

// What is done once in front of the loop is not done in every turn.
// CHECK-LABEL: @chain_into_a_loop
// CHECK: [[BEFORE:%.*]] = ttg.convert_layout %arg0 : tensor<64xf32, [[PAIRS]]> -> tensor<64xf32, [[COMB]]>
// CHECK: scf.for
// CHECK: ttg.convert_layout [[BEFORE]] : tensor<64xf32, [[COMB]]> -> tensor<64xf32, [[SWAPPED]]>
tt.func @chain_into_a_loop(%x: tensor<64xf32, #pairs>, %y: tensor<64xf32, #swapped>, %n: i32) -> tensor<64xf32, #swapped> {
  %zero = arith.constant 0 : i32
  %one = arith.constant 1 : i32
  %0 = ttg.convert_layout %x : tensor<64xf32, #pairs> -> tensor<64xf32, #comb>
  %1 = scf.for %i = %zero to %n step %one iter_args(%v = %y) -> tensor<64xf32, #swapped> : i32 {
    %2 = ttg.convert_layout %0 : tensor<64xf32, #comb> -> tensor<64xf32, #swapped>
    %3 = arith.addf %v, %2 : tensor<64xf32, #swapped>
    scf.yield %3 : tensor<64xf32, #swapped>
  }
  tt.return %1 : tensor<64xf32, #swapped>
}

// CHECK-LABEL: @splat
// CHECK-NOT: ttg.convert_layout
// CHECK: [[SPLAT:%.*]] = tt.splat %arg0 : f32 -> tensor<64xf32, [[COMB]]>
// CHECK-NEXT: tt.return [[SPLAT]]
tt.func @splat(%x: f32) -> tensor<64xf32, #comb> {
  %0 = tt.splat %x : f32 -> tensor<64xf32, #pairs>
  %1 = ttg.convert_layout %0 : tensor<64xf32, #pairs> -> tensor<64xf32, #comb>
  tt.return %1 : tensor<64xf32, #comb>
}

// CHECK-LABEL: @splat_of_pointers
// CHECK-NEXT: [[SPLAT:%.*]] = tt.splat %arg0 : !tt.ptr<f16> -> tensor<64x!tt.ptr<f16>, [[COMB]]>
// CHECK-NEXT: tt.return [[SPLAT]]
tt.func @splat_of_pointers(%x: !tt.ptr<f16>) -> tensor<64x!tt.ptr<f16>, #comb> {
  %0 = tt.splat %x : !tt.ptr<f16> -> tensor<64x!tt.ptr<f16>, #pairs>
  %1 = ttg.convert_layout %0 : tensor<64x!tt.ptr<f16>, #pairs> -> tensor<64x!tt.ptr<f16>, #comb>
  tt.return %1 : tensor<64x!tt.ptr<f16>, #comb>
}

// CHECK-LABEL: @constants
// CHECK-DAG: arith.constant dense<1.500000e+00> : tensor<64xf32, [[COMB]]>
// CHECK-DAG: arith.constant dense<true> : tensor<64xi1, [[COMB]]>
// CHECK-DAG: arith.constant dense<-3> : tensor<64xi8, [[COMB]]>
// CHECK-DAG: arith.constant dense<5.000000e-01> : tensor<64xf8E4M3FN, [[COMB]]>
// CHECK-NOT: ttg.convert_layout
// CHECK: tt.return
tt.func @constants() -> (tensor<64xf32, #comb>, tensor<64xi1, #comb>, tensor<64xi8, #comb>, tensor<64xf8E4M3FN, #comb>) {
  %a = arith.constant dense<1.5> : tensor<64xf32, #pairs>
  %b = arith.constant dense<true> : tensor<64xi1, #pairs>
  %c = arith.constant dense<-3> : tensor<64xi8, #pairs>
  %d = arith.constant dense<0.5> : tensor<64xf8E4M3FN, #pairs>
  %0 = ttg.convert_layout %a : tensor<64xf32, #pairs> -> tensor<64xf32, #comb>
  %1 = ttg.convert_layout %b : tensor<64xi1, #pairs> -> tensor<64xi1, #comb>
  %2 = ttg.convert_layout %c : tensor<64xi8, #pairs> -> tensor<64xi8, #comb>
  %3 = ttg.convert_layout %d : tensor<64xf8E4M3FN, #pairs> -> tensor<64xf8E4M3FN, #comb>
  tt.return %0, %1, %2, %3 : tensor<64xf32, #comb>, tensor<64xi1, #comb>, tensor<64xi8, #comb>, tensor<64xf8E4M3FN, #comb>
}

// A constant that is no splat differs from register to register; the conversion may be what places it.
// CHECK-LABEL: @constant_that_is_no_splat
// CHECK: ttg.convert_layout
tt.func @constant_that_is_no_splat() -> tensor<2xf32, #comb> {
  %a = arith.constant dense<[1.0, 2.0]> : tensor<2xf32, #pairs>
  %0 = ttg.convert_layout %a : tensor<2xf32, #pairs> -> tensor<2xf32, #comb>
  tt.return %0 : tensor<2xf32, #comb>
}

// CHECK-LABEL: @splat_with_other_users
// CHECK-DAG: tt.splat %arg0 : f32 -> tensor<64xf32, [[PAIRS]]>
// CHECK-DAG: tt.splat %arg0 : f32 -> tensor<64xf32, [[COMB]]>
// CHECK: tt.return
tt.func @splat_with_other_users(%x: f32) -> (tensor<64xf32, #pairs>, tensor<64xf32, #comb>) {
  %0 = tt.splat %x : f32 -> tensor<64xf32, #pairs>
  %1 = ttg.convert_layout %0 : tensor<64xf32, #pairs> -> tensor<64xf32, #comb>
  tt.return %0, %1 : tensor<64xf32, #pairs>, tensor<64xf32, #comb>
}

// CHECK-LABEL: @identical_conversions
// CHECK: [[ONE:%.*]] = ttg.convert_layout
// CHECK-NOT: ttg.convert_layout
// CHECK: tt.return [[ONE]], [[ONE]]
tt.func @identical_conversions(%x: tensor<64xf32, #pairs>) -> (tensor<64xf32, #comb>, tensor<64xf32, #comb>) {
  %0 = ttg.convert_layout %x : tensor<64xf32, #pairs> -> tensor<64xf32, #comb>
  %1 = ttg.convert_layout %x : tensor<64xf32, #pairs> -> tensor<64xf32, #comb>
  tt.return %0, %1 : tensor<64xf32, #comb>, tensor<64xf32, #comb>
}

// CHECK-LABEL: @identical_conversion_inside_a_branch
// CHECK: [[ONE:%.*]] = ttg.convert_layout
// CHECK: scf.if
// CHECK-NOT: ttg.convert_layout
// CHECK: scf.yield [[ONE]]
// CHECK: tt.return
tt.func @identical_conversion_inside_a_branch(%x: tensor<64xf32, #pairs>, %c: i1) -> tensor<64xf32, #comb> {
  %0 = ttg.convert_layout %x : tensor<64xf32, #pairs> -> tensor<64xf32, #comb>
  %1 = scf.if %c -> tensor<64xf32, #comb> {
    %2 = ttg.convert_layout %x : tensor<64xf32, #pairs> -> tensor<64xf32, #comb>
    scf.yield %2 : tensor<64xf32, #comb>
  } else {
    %3 = arith.addf %0, %0 : tensor<64xf32, #comb>
    scf.yield %3 : tensor<64xf32, #comb>
  }
  tt.return %1 : tensor<64xf32, #comb>
}

// Neither branch dominates the other, nor what follows.
// CHECK-LABEL: @identical_conversions_in_two_branches
// CHECK-COUNT-3: ttg.convert_layout
// CHECK-NOT: ttg.convert_layout
// CHECK: tt.return
tt.func @identical_conversions_in_two_branches(%x: tensor<64xf32, #pairs>, %c: i1)
    -> (tensor<64xf32, #comb>, tensor<64xf32, #comb>) {
  %0 = scf.if %c -> tensor<64xf32, #comb> {
    %1 = ttg.convert_layout %x : tensor<64xf32, #pairs> -> tensor<64xf32, #comb>
    scf.yield %1 : tensor<64xf32, #comb>
  } else {
    %2 = ttg.convert_layout %x : tensor<64xf32, #pairs> -> tensor<64xf32, #comb>
    %3 = arith.addf %2, %2 : tensor<64xf32, #comb>
    scf.yield %3 : tensor<64xf32, #comb>
  }
  %4 = ttg.convert_layout %x : tensor<64xf32, #pairs> -> tensor<64xf32, #comb>
  tt.return %0, %4 : tensor<64xf32, #comb>, tensor<64xf32, #comb>
}

// A store into shared memory takes any layout, so a change of name in front of it is not needed.
// CHECK-LABEL: @no_op_before_a_store_into_shared_memory
// CHECK-NOT: ttg.convert_layout
// CHECK: ttg.local_store %arg0
tt.func @no_op_before_a_store_into_shared_memory(%x: tensor<64xf32, #pairs>, %m: !ttg.memdesc<64xf32, #shared, #smem, mutable>) {
  %0 = ttg.convert_layout %x : tensor<64xf32, #pairs> -> tensor<64xf32, #linear>
  ttg.local_store %0, %m : tensor<64xf32, #linear> -> !ttg.memdesc<64xf32, #shared, #smem, mutable>
  tt.return
}

// CHECK-LABEL: @no_op_after_a_load_from_shared_memory
// CHECK: [[VALUE:%.*]] = ttg.local_load %arg0 : {{.*}} -> tensor<64xf32, [[LINEAR]]>
// CHECK-NOT: ttg.convert_layout
// CHECK: tt.return [[VALUE]]
tt.func @no_op_after_a_load_from_shared_memory(%m: !ttg.memdesc<64xf32, #shared, #smem, mutable>) -> tensor<64xf32, #linear> {
  %0 = ttg.local_load %m : !ttg.memdesc<64xf32, #shared, #smem, mutable> -> tensor<64xf32, #pairs>
  %1 = ttg.convert_layout %0 : tensor<64xf32, #pairs> -> tensor<64xf32, #linear>
  tt.return %1 : tensor<64xf32, #linear>
}

// Other users of the loaded value want its type.
// CHECK-LABEL: @no_op_after_a_load_with_other_users
// CHECK: ttg.convert_layout
tt.func @no_op_after_a_load_with_other_users(%m: !ttg.memdesc<64xf32, #shared, #smem, mutable>)
    -> (tensor<64xf32, #pairs>, tensor<64xf32, #linear>) {
  %0 = ttg.local_load %m : !ttg.memdesc<64xf32, #shared, #smem, mutable> -> tensor<64xf32, #pairs>
  %1 = ttg.convert_layout %0 : tensor<64xf32, #pairs> -> tensor<64xf32, #linear>
  tt.return %0, %1 : tensor<64xf32, #pairs>, tensor<64xf32, #linear>
}

// An operation with other operands of the wanted type needs the change of name.
// CHECK-LABEL: @no_op_before_arithmetic
// CHECK: ttg.convert_layout
tt.func @no_op_before_arithmetic(%x: tensor<64xf32, #pairs>, %y: tensor<64xf32, #linear>) -> tensor<64xf32, #linear> {
  %0 = ttg.convert_layout %x : tensor<64xf32, #pairs> -> tensor<64xf32, #linear>
  %1 = arith.addf %0, %y : tensor<64xf32, #linear>
  tt.return %1 : tensor<64xf32, #linear>
}

// CHECK-LABEL: @conversion_that_moves_data
// CHECK: ttg.convert_layout
tt.func @conversion_that_moves_data(%x: tensor<64xf32, #pairs>, %m: !ttg.memdesc<64xf32, #shared, #smem, mutable>) {
  %0 = ttg.convert_layout %x : tensor<64xf32, #pairs> -> tensor<64xf32, #comb>
  ttg.local_store %0, %m : tensor<64xf32, #comb> -> !ttg.memdesc<64xf32, #shared, #smem, mutable>
  tt.return
}

// CHECK-LABEL: @unused_conversion
// CHECK-NEXT: tt.return
tt.func @unused_conversion(%x: tensor<64xf32, #pairs>) {
  %0 = ttg.convert_layout %x : tensor<64xf32, #pairs> -> tensor<64xf32, #comb>
  tt.return
}

}
