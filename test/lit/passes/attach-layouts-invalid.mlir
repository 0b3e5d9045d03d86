// RUN: triton-linear-opt %s --linear-attach-layouts --split-input-file --verify-diagnostics

// The bases of the operands' layout are written out; what follows from them is what an operation must state.

"builtin.module"() ({
  // expected-note@below {{the operand has register [[0, 1]]; lane [[1, 0], [2, 0]]; warp []; block []}}
  "tt.func"() <{function_type = () -> (), sym_name = "trans"}> ({
  ^bb0(%x: tensor<4x2xf32, #ttg.linear<{register = [[0, 1]], lane = [[1, 0], [2, 0]], warp = [], block = []}>>):
    // expected-error@+2 {{'tt.trans': layouts of operand and result do not agree: lane=1 -> (0, 1) against (0, 2)}}
    // expected-note@+1 {{the result has register [[1, 0]]; lane [[0, 2], [0, 1]]; warp []; block []}}
    %0 = "tt.trans"(%x) <{order = array<i32: 1, 0>}> : (tensor<4x2xf32, #ttg.linear<{register = [[0, 1]], lane = [[1, 0], [2, 0]], warp = [], block = []}>>) -> tensor<2x4xf32, #ttg.linear<{register = [[1, 0]], lane = [[0, 2], [0, 1]], warp = [], block = []}>>
    "tt.return"() : () -> ()
  }) : () -> ()
}) : () -> ()

// -----

"builtin.module"() ({
  // expected-note@below {{the operand has}}
  "tt.func"() <{function_type = () -> (), sym_name = "reshape"}> ({
  ^bb0(%x: tensor<4x2xf32, #ttg.linear<{register = [[0, 1]], lane = [[1, 0], [2, 0]], warp = [], block = []}>>):
    // Elements that may take any place agree with every layout.
    %0 = "tt.reshape"(%x) <{allow_reorder}> : (tensor<4x2xf32, #ttg.linear<{register = [[0, 1]], lane = [[1, 0], [2, 0]], warp = [], block = []}>>) -> tensor<8xf32, #ttg.linear<{register = [[4]], lane = [[1], [2]], warp = [], block = []}>>
    // expected-error@+2 {{'tt.reshape': layouts of operand and result do not agree: register=1 -> (1,) against (4,)}}
    // expected-note@+1 {{the result has}}
    %1 = "tt.reshape"(%x) : (tensor<4x2xf32, #ttg.linear<{register = [[0, 1]], lane = [[1, 0], [2, 0]], warp = [], block = []}>>) -> tensor<8xf32, #ttg.linear<{register = [[4]], lane = [[1], [2]], warp = [], block = []}>>
    "tt.return"() : () -> ()
  }) : () -> ()
}) : () -> ()

// -----

"builtin.module"() ({
  "tt.func"() <{function_type = () -> (), sym_name = "expand_dims"}> ({
    // expected-note@below {{the operand has}}
    %x = "tt.make_range"() <{end = 4 : i32, start = 0 : i32}> : () -> tensor<4xi32, #ttg.linear<{register = [], lane = [[1], [2]], warp = [], block = []}>>
    // expected-error@+2 {{'tt.expand_dims': layouts of operand and result do not agree: lane=1 -> (0, 1) against (0, 2)}}
    // expected-note@+1 {{the result has}}
    %0 = "tt.expand_dims"(%x) <{axis = 0 : i32}> : (tensor<4xi32, #ttg.linear<{register = [], lane = [[1], [2]], warp = [], block = []}>>) -> tensor<1x4xi32, #ttg.linear<{register = [], lane = [[0, 2], [0, 1]], warp = [], block = []}>>
    "tt.return"() : () -> ()
  }) : () -> ()
}) : () -> ()

// -----

"builtin.module"() ({
  // expected-note@below {{the operand has}}
  "tt.func"() <{function_type = () -> (), sym_name = "broadcast"}> ({
  ^bb0(%x: tensor<4x1xf32, #ttg.linear<{register = [], lane = [[1, 0], [2, 0]], warp = [[0, 0]], block = []}>>):
    // Copies may become new elements in registers, lanes or warps.
    %0 = "tt.broadcast"(%x) : (tensor<4x1xf32, #ttg.linear<{register = [], lane = [[1, 0], [2, 0]], warp = [[0, 0]], block = []}>>) -> tensor<4x4xf32, #ttg.linear<{register = [[0, 1]], lane = [[1, 0], [2, 0]], warp = [[0, 2]], block = []}>>
    // expected-error@+2 {{'tt.broadcast': layouts of operand and result do not agree: lane=1 -> (1, 0) against (2, 0)}}
    // expected-note@+1 {{the result has}}
    %1 = "tt.broadcast"(%x) : (tensor<4x1xf32, #ttg.linear<{register = [], lane = [[1, 0], [2, 0]], warp = [[0, 0]], block = []}>>) -> tensor<4x4xf32, #ttg.linear<{register = [[0, 1]], lane = [[2, 0], [1, 0]], warp = [[0, 2]], block = []}>>
    "tt.return"() : () -> ()
  }) : () -> ()
}) : () -> ()

// -----

"builtin.module"() ({
  // expected-note@below {{the operand has}}
  "tt.func"() <{function_type = () -> (), sym_name = "join"}> ({
  ^bb0(%x: tensor<4xf32, #ttg.linear<{register = [], lane = [[1], [2]], warp = [], block = []}>>):
    // expected-error@+2 {{'tt.join': layouts of operand and result do not agree: the last dimension of the result is not one register bit}}
    // expected-note@+1 {{the result has}}
    %0 = "tt.join"(%x, %x) : (tensor<4xf32, #ttg.linear<{register = [], lane = [[1], [2]], warp = [], block = []}>>, tensor<4xf32, #ttg.linear<{register = [], lane = [[1], [2]], warp = [], block = []}>>) -> tensor<4x2xf32, #ttg.linear<{register = [[1, 0]], lane = [[0, 1], [2, 0]], warp = [], block = []}>>
    "tt.return"() : () -> ()
  }) : () -> ()
}) : () -> ()

// -----

"builtin.module"() ({
  // expected-note@+2 {{the operand has}}
  // expected-note@+1 {{the operand has}}
  "tt.func"() <{function_type = () -> (), sym_name = "split"}> ({
  ^bb0(%x: tensor<4x2xf32, #ttg.linear<{register = [[0, 1]], lane = [[1, 0], [2, 0]], warp = [], block = []}>>, %y: tensor<4x2xf32, #ttg.linear<{register = [[1, 0]], lane = [[0, 1], [2, 0]], warp = [], block = []}>>):
    // expected-error@+2 {{'tt.split': layouts of operand and result do not agree: lane=1 -> (1,) against (2,)}}
    // expected-note@+1 {{the result has}}
    %0:2 = "tt.split"(%x) : (tensor<4x2xf32, #ttg.linear<{register = [[0, 1]], lane = [[1, 0], [2, 0]], warp = [], block = []}>>) -> (tensor<4xf32, #ttg.linear<{register = [], lane = [[2], [1]], warp = [], block = []}>>, tensor<4xf32, #ttg.linear<{register = [], lane = [[2], [1]], warp = [], block = []}>>)
    // expected-error@+2 {{'tt.split': layouts of operand and result do not agree: the last dimension of the operand is not one register bit}}
    // expected-note@+1 {{the result has}}
    %1:2 = "tt.split"(%y) : (tensor<4x2xf32, #ttg.linear<{register = [[1, 0]], lane = [[0, 1], [2, 0]], warp = [], block = []}>>) -> (tensor<4xf32, #ttg.linear<{register = [[1]], lane = [[0], [2]], warp = [], block = []}>>, tensor<4xf32, #ttg.linear<{register = [[1]], lane = [[0], [2]], warp = [], block = []}>>)
    "tt.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
