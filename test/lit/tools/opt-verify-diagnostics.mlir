// Every form of an expectation, met.
// RUN: triton-linear-opt %s --split-input-file --verify-diagnostics --linear-select-lowering

#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
module {
  tt.func @plus(%x: tensor<64xf32, #blocked>) {
    // expected-error@+1 {{requires the same shape for all operands and results}}
    %y = ttg.convert_layout %x : tensor<64xf32, #blocked> -> tensor<32xf32, #blocked>
    tt.return
  }
}

// -----

module {
  tt.func @same_line(%x: tensor<64xf32, #missing>) { tt.return } // expected-error {{undefined symbol alias id 'missing'}}
}

// -----

module {
  tt.func @minus(%x: tensor<64xf32, #missing>) { tt.return }

  // expected-error@-2 {{undefined symbol alias}}
}

// -----

module {
  tt.func @above(%x: tensor<64xf32, #missing>) { tt.return }
  // expected-error@above {{undefined symbol alias}}
}

// -----

module {
  // expected-error-re@below {{undefined {{[a-z]+}} alias id}}
  tt.func @below(%x: tensor<64xf32, #missing>) { tt.return }
}

// -----

// expected-error@below {{linear-select-lowering: module has no 'ttg.target' and the pass no 'target' option}}
module {
  tt.func @nothing() { tt.return }
}

// -----

#near = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0], CGALayout = [[1]]}>
#far = #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [1], order = [0], CGALayout = [[0]]}>
module attributes {"ttg.num-ctas" = 2 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:80", "ttg.threads-per-warp" = 32 : i32} {
  tt.func @across_ctas(%x: tensor<128xf32, #near>) {
    // expected-remark@+1 {{conversion left to Triton: source and destination differ in their block bits: the conversion crosses CTAs}}
    %y = ttg.convert_layout %x : tensor<128xf32, #near> -> tensor<128xf32, #far>
    tt.return
  }
}
