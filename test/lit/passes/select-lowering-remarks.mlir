// RUN: triton-linear-opt %s --linear-select-lowering --split-input-file --verify-diagnostics

#a = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
#b = #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>

// expected-error@below {{linear-select-lowering: module has no 'ttg.target' and the pass no 'target' option}}
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 32 : i32} {
tt.func @no_target(%x: tensor<64xf32, #a>) -> tensor<64xf32, #b> {
  %0 = ttg.convert_layout %x : tensor<64xf32, #a> -> tensor<64xf32, #b>
  tt.return %0 : tensor<64xf32, #b>
}
}

// -----

#a = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0], CGALayout = [[1]]}>
#b = #ttg.blocked<{sizePerThread = [4], threadsPerWarp = [32], warpsPerCTA = [1], order = [0], CGALayout = [[0]]}>

module attributes {"ttg.num-ctas" = 2 : i32, "ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:80"} {
tt.func @across_ctas(%x: tensor<128xf32, #a>) -> tensor<128xf32, #b> {
  // expected-remark@below {{conversion left to Triton: source and destination differ in their block bits: the conversion crosses CTAs}}
  %0 = ttg.convert_layout %x : tensor<128xf32, #a> -> tensor<128xf32, #b>
  tt.return %0 : tensor<128xf32, #b>
}
}

// -----

// The target has more lanes than the layouts.
#a = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
#b = #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "hip:gfx942"} {
tt.func @wrong_lanes(%x: tensor<64xf32, #a>) -> tensor<64xf32, #b> {
  // expected-remark@below {{conversion left to Triton: the source layout has 32 lanes, hip:gfx942 has 64}}
  %0 = ttg.convert_layout %x : tensor<64xf32, #a> -> tensor<64xf32, #b>
  tt.return %0 : tensor<64xf32, #b>
}
}

// -----

// A barrier in a region is that of its warps. In a function that regions call it is not known whose it is, and
// where there are calls beside regions, no code of ours waits at one.
#rows = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#lanes = #ttg.linear<{register = [], lane = [[2], [1], [4], [8], [16]], warp = [[32], [64]], block = []}>
#warps = #ttg.linear<{register = [], lane = [[32], [64], [4], [8], [16]], warp = [[1], [2]], block = []}>

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:100"} {
tt.func @warp_specialised(%x: tensor<128xf32, #rows>) -> tensor<128xf32, #warps> {
  %0 = ttg.convert_layout %x : tensor<128xf32, #rows> -> tensor<128xf32, #lanes>
  // expected-remark@below {{conversion left to Triton: it needs a barrier, and the module has both warp-specialised regions and functions that are called}}
  %1 = ttg.convert_layout %0 : tensor<128xf32, #lanes> -> tensor<128xf32, #warps>
  ttg.warp_specialize(%x)
  default {
    %2 = tt.make_range {start = 0 : i32, end = 128 : i32} : tensor<128xi32, #rows>
    %3 = ttg.convert_layout %2 : tensor<128xi32, #rows> -> tensor<128xi32, #lanes>
    ttg.warp_yield
  }
  partition0(%arg0: tensor<128xf32, #rows>) num_warps(4) {
    // expected-remark@below {{conversion left to Triton: it needs a barrier, and the module has both warp-specialised regions and functions that are called}}
    %4 = ttg.convert_layout %arg0 : tensor<128xf32, #rows> -> tensor<128xf32, #warps>
    tt.call @from_a_partition(%arg0) : (tensor<128xf32, #rows>) -> ()
    ttg.warp_return
  } : (tensor<128xf32, #rows>) -> ()
  tt.return %1 : tensor<128xf32, #warps>
}
tt.func private @from_a_partition(%x: tensor<128xf32, #rows>) {
  tt.call @from_there(%x) : (tensor<128xf32, #rows>) -> ()
  tt.return
}
tt.func private @from_there(%x: tensor<128xf32, #rows>) {
  // expected-remark@below {{conversion left to Triton: a warp-specialised region calls the function that it is in, and only some warps of the CTA run it}}
  %0 = ttg.convert_layout %x : tensor<128xf32, #rows> -> tensor<128xf32, #lanes>
  tt.return
}
}

// -----

// Without calls all of it is ours.
#rows = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4], order = [0]}>
#warps = #ttg.linear<{register = [], lane = [[32], [64], [4], [8], [16]], warp = [[1], [2]], block = []}>

module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, "ttg.threads-per-warp" = 32 : i32, ttg.target = "cuda:100"} {
tt.func @no_calls(%x: tensor<128xf32, #rows>) -> tensor<128xf32, #warps> {
  %1 = ttg.convert_layout %x : tensor<128xf32, #rows> -> tensor<128xf32, #warps>
  ttg.warp_specialize(%x)
  default {
    ttg.warp_yield
  }
  partition0(%arg0: tensor<128xf32, #rows>) num_warps(4) {
    %4 = ttg.convert_layout %arg0 : tensor<128xf32, #rows> -> tensor<128xf32, #warps>
    ttg.warp_return
  } : (tensor<128xf32, #rows>) -> ()
  tt.return %1 : tensor<128xf32, #warps>
}
}

// -----

// The text of a module in generic form is taken as it stands, with encodings that no Triton has.
"builtin.module"() ({
  "tt.func"() <{function_type = (tensor<4xf32, #ttg.novel<{}>>) -> (), sym_name = "unknown_encoding"}> ({
  ^bb0(%x: tensor<4xf32, #ttg.novel<{}>>):
    // expected-remark@below {{conversion left to Triton: unknown encoding '#ttg.novel'}}
    %0 = "ttg.convert_layout"(%x) : (tensor<4xf32, #ttg.novel<{}>>) -> tensor<4xf32, #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>>
    "tt.return"() : () -> ()
  }) : () -> ()
}) {ttg.target = "cuda:90"} : () -> ()

// -----

"builtin.module"() ({
  "tt.func"() <{function_type = (tensor<4xf32>) -> (), sym_name = "no_encoding"}> ({
  ^bb0(%x: tensor<4xf32>):
    // expected-remark@below {{conversion left to Triton: the tensor has no encoding}}
    %0 = "ttg.convert_layout"(%x) : (tensor<4xf32>) -> tensor<4xf32, #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>>
    "tt.return"() : () -> ()
  }) : () -> ()
}) {ttg.target = "cuda:90"} : () -> ()

// -----

"builtin.module"() ({
  "tt.func"() <{function_type = (tensor<64xi24, #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>>) -> (), sym_name = "odd_element"}> ({
  ^bb0(%x: tensor<64xi24, #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>>):
    // expected-remark@below {{conversion left to Triton: element type 'i24' has no register form of 1, 8, 16, 32 or 64 bits}}
    %0 = "ttg.convert_layout"(%x) : (tensor<64xi24, #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>>) -> tensor<64xi24, #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>>
    "tt.return"() : () -> ()
  }) : () -> ()
}) {ttg.target = "cuda:90"} : () -> ()

// -----

"builtin.module"() ({
  "tt.func"() <{function_type = (tensor<64x!tt.ptr<f32, "constant">, #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [64], warpsPerCTA = [1], order = [0]}>>) -> (), sym_name = "named_space"}> ({
  ^bb0(%x: tensor<64x!tt.ptr<f32, "constant">, #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [64], warpsPerCTA = [1], order = [0]}>>):
    // expected-remark@below {{conversion left to Triton: it moves pointers to the address space "constant", which AMD GPUs have apart}}
    %0 = "ttg.convert_layout"(%x) : (tensor<64x!tt.ptr<f32, "constant">, #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [64], warpsPerCTA = [1], order = [0]}>>) -> tensor<64x!tt.ptr<f32, "constant">, #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [64], warpsPerCTA = [1], order = [0]}>>
    "tt.return"() : () -> ()
  }) : () -> ()
}) {ttg.target = "hip:gfx942"} : () -> ()
