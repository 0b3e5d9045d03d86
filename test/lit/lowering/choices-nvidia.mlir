// RUN: triton-linear-opt %s --split-input-file --linear-pipeline --no-assign --no-reductions --emit=ptx | FileCheck %s

// Both sides move four words at a time, though they share only pairs: the swizzle frees both of conflicts.

// CHECK-LABEL: .entry accumulator_to_rows(
// CHECK-NOT:      {{shfl|bar\.sync|prmt}}
// CHECK-COUNT-8:  st.shared.v4.b32
// CHECK-NEXT:     bar.sync
// CHECK-COUNT-8:  ld.shared.v4.b32
// CHECK-NOT:      {{shfl|[dt]\.shared|bar\.|matrix}}
// CHECK:          ret;

#src = #ttg.nvidia_mma<{versionMajor = 3, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 64, 8]}>
#dst = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @accumulator_to_rows(%x: tensor<64x64xf32, #src>, %p: tensor<64x64x!tt.ptr<f32>, #dst>) {
    %y = ttg.convert_layout %x : tensor<64x64xf32, #src> -> tensor<64x64xf32, #dst>
    tt.store %p, %y : tensor<64x64x!tt.ptr<f32>, #dst>
    tt.return
  }
}

// -----

// Half-words that lie across the columns are turned by the stores. Nothing is permuted in registers.

// CHECK-LABEL: .entry accumulator_to_columns(
// CHECK-NOT:      {{shfl|bar\.sync|[dt]\.shared}}
// CHECK-COUNT-4:  stmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// CHECK-NEXT:     bar.sync
// CHECK-COUNT-4:  ld.shared.v4.b32
// CHECK-NOT:      {{shfl|[dt]\.shared|bar\.|matrix}}
// CHECK:          ret;

#src = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}>
#dst = #ttg.blocked<{sizePerThread = [8, 1], threadsPerWarp = [8, 4], warpsPerCTA = [1, 4], order = [0, 1]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @accumulator_to_columns(%x: tensor<64x64xf16, #src>, %p: tensor<64x64x!tt.ptr<f16>, #dst>) {
    %y = ttg.convert_layout %x : tensor<64x64xf16, #src> -> tensor<64x64xf16, #dst>
    tt.store %p, %y : tensor<64x64x!tt.ptr<f16>, #dst>
    tt.return
  }
}

// -----

// The second operand of a product wants neighbours down a column: the loads turn them.

// CHECK-LABEL: .entry rows_to_operand_1(
// CHECK-NOT:      {{shfl|bar\.sync|prmt}}
// CHECK-COUNT-4:  st.shared.v4.b32
// CHECK-NEXT:     bar.sync
// CHECK-COUNT-8:  ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// CHECK-NOT:      {{shfl|[dt]\.shared|bar\.|matrix}}
// CHECK:          ret;

#src = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
#dst = #ttg.dot_op<{opIdx = 1, parent = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}>, kWidth = 2}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @rows_to_operand_1(%x: tensor<64x64xf16, #src>, %p: tensor<64x64x!tt.ptr<f16>, #dst>) {
    %y = ttg.convert_layout %x : tensor<64x64xf16, #src> -> tensor<64x64xf16, #dst>
    tt.store %p, %y : tensor<64x64x!tt.ptr<f16>, #dst>
    tt.return
  }
}

// -----

// Two warps hold each element of an operand. Each stores half of what both have, chosen by selects.

// CHECK-LABEL: .entry operand_1_to_rows(
// CHECK-NOT:      {{shfl|bar\.sync|[dt]\.shared}}
// CHECK-COUNT-4:  stmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// CHECK-NEXT:     bar.sync
// CHECK-COUNT-4:  ld.shared.v4.b32
// CHECK-NOT:      {{shfl|[dt]\.shared|bar\.|matrix}}
// CHECK:          ret;

#src = #ttg.dot_op<{opIdx = 1, parent = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [2, 2], instrShape = [16, 8]}>, kWidth = 2}>
#dst = #ttg.blocked<{sizePerThread = [1, 8], threadsPerWarp = [4, 8], warpsPerCTA = [4, 1], order = [1, 0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @operand_1_to_rows(%x: tensor<64x64xf16, #src>, %p: tensor<64x64x!tt.ptr<f16>, #dst>) {
    %y = ttg.convert_layout %x : tensor<64x64xf16, #src> -> tensor<64x64xf16, #dst>
    tt.store %p, %y : tensor<64x64x!tt.ptr<f16>, #dst>
    tt.return
  }
}

// -----

// Bytes of a transpose meet nowhere in words. One exchange of a lane bit makes pairs of them, which matrix
// accesses turn.

// CHECK-LABEL: .entry bytes_transposed(
// CHECK-NOT:      {{[dt]\.shared|bar\.|matrix}}
// CHECK-COUNT-4:  shfl.sync.bfly.b32
// CHECK-NOT:      {{shfl|[dt]\.shared|bar\.sync}}
// CHECK-COUNT-2:  stmatrix.sync.aligned.m8n8.x4.trans.shared.b16
// CHECK-NEXT:     bar.sync
// CHECK-COUNT-4:  ld.shared.v2.b32
// CHECK-NOT:      {{shfl|[dt]\.shared|bar\.|matrix}}
// CHECK:          ret;

#src = #ttg.blocked<{sizePerThread = [1, 16], threadsPerWarp = [8, 4], warpsPerCTA = [4, 1], order = [1, 0]}>
#dst = #ttg.blocked<{sizePerThread = [16, 1], threadsPerWarp = [4, 8], warpsPerCTA = [1, 4], order = [0, 1]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @bytes_transposed(%x: tensor<64x64xi8, #src>, %p: tensor<64x64x!tt.ptr<i8>, #dst>) {
    %y = ttg.convert_layout %x : tensor<64x64xi8, #src> -> tensor<64x64xi8, #dst>
    tt.store %p, %y : tensor<64x64x!tt.ptr<i8>, #dst>
    tt.return
  }
}

// -----

// As in attention with 8-bit operands: inside the warps, by one indexed shuffle for each word and a permute or
// select on either side.

// CHECK-LABEL: .entry accumulator_to_fp8_operand(
// CHECK-NOT:      {{[dt]\.shared|bar\.|matrix}}
// CHECK-COUNT-8:  shfl.sync.idx.b32
// CHECK-NOT:      {{shfl|[dt]\.shared|bar\.|matrix}}
// CHECK:          ret;

#src = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 8]}>
#dst = #ttg.dot_op<{opIdx = 0, parent = #ttg.nvidia_mma<{versionMajor = 2, versionMinor = 0, warpsPerCTA = [4, 1], instrShape = [16, 8]}>, kWidth = 4}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @accumulator_to_fp8_operand(%x: tensor<64x64xf8E4M3FN, #src>, %p: tensor<64x64x!tt.ptr<f8E4M3FN>, #dst>) {
    %y = ttg.convert_layout %x : tensor<64x64xf8E4M3FN, #src> -> tensor<64x64xf8E4M3FN, #dst>
    tt.store %p, %y : tensor<64x64x!tt.ptr<f8E4M3FN>, #dst>
    tt.return
  }
}

// -----

// Two lane bits and the two register bits that number bytes in a word change places, one after the other:
// three permutes around each shuffle.

// CHECK-LABEL: .entry two_bytes_and_two_lanes(
// CHECK-NOT:      {{[dt]\.shared|bar\.|matrix}}
// CHECK-COUNT-4:  shfl.sync.bfly.b32 {{.*}}, 1, 31, -1
// CHECK-COUNT-4:  shfl.sync.bfly.b32 {{.*}}, 2, 31, -1
// CHECK-NOT:      {{shfl|[dt]\.shared|bar\.|matrix}}
// CHECK:          ret;

#src = #ttg.linear<{register = [[1], [2], [256], [512], [128]], lane = [[4], [8], [16], [32], [64]], warp = [[1024], [2048]], block = []}>
#dst = #ttg.linear<{register = [[4], [8], [256], [512], [128]], lane = [[1], [2], [16], [32], [64]], warp = [[1024], [2048]], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @two_bytes_and_two_lanes(%x: tensor<4096xi8, #src>, %p: tensor<4096x!tt.ptr<i8>, #dst>) {
    %y = ttg.convert_layout %x : tensor<4096xi8, #src> -> tensor<4096xi8, #dst>
    tt.store %p, %y : tensor<4096x!tt.ptr<i8>, #dst>
    tt.return
  }
}

// -----

// The same with words: three selects around each shuffle.

// CHECK-LABEL: .entry two_registers_and_two_lanes(
// CHECK-NOT:      {{[dt]\.shared|bar\.|matrix}}
// CHECK-COUNT-4:  shfl.sync.bfly.b32 {{.*}}, 1, 31, -1
// CHECK-COUNT-2:  selp.b32
// CHECK-NOT:      {{[dt]\.shared|bar\.|matrix}}
// CHECK-COUNT-4:  shfl.sync.bfly.b32 {{.*}}, 2, 31, -1
// CHECK-COUNT-4:  selp.b32
// CHECK-NOT:      {{shfl|[dt]\.shared|bar\.|matrix}}
// CHECK:          ret;

#src = #ttg.linear<{register = [[1], [2], [128]], lane = [[4], [8], [16], [32], [64]], warp = [[256], [512]], block = []}>
#dst = #ttg.linear<{register = [[4], [8], [128]], lane = [[1], [2], [16], [32], [64]], warp = [[256], [512]], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @two_registers_and_two_lanes(%x: tensor<1024xi32, #src>, %p: tensor<1024x!tt.ptr<i32>, #dst>) {
    %y = ttg.convert_layout %x : tensor<1024xi32, #src> -> tensor<1024xi32, #dst>
    tt.store %p, %y : tensor<1024x!tt.ptr<i32>, #dst>
    tt.return
  }
}

// -----

// A register bit and a warp bit change places, and with them what pairs of half-words share a word. Matrix
// accesses on both sides pair them anew.

// CHECK-LABEL: .entry lanes_stay_and_half_words_pair_anew(
// CHECK-NOT:      {{shfl|bar\.sync|[dt]\.shared}}
// CHECK-COUNT-1:  stmatrix.sync.aligned.m8n8.x2.trans.shared.b16
// CHECK-NEXT:     bar.sync
// CHECK-NOT:      {{shfl|[dt]\.shared|bar\.}}
// CHECK-COUNT-1:  ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16
// CHECK-NOT:      {{shfl|[dt]\.shared|bar\.|matrix}}
// CHECK:          ret;

#src = #ttg.linear<{register = [[64], [128]], lane = [[1], [2], [4], [8], [16]], warp = [[32]], block = []}>
#dst = #ttg.linear<{register = [[32], [128]], lane = [[1], [2], [4], [8], [16]], warp = [[64]], block = []}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 2 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @lanes_stay_and_half_words_pair_anew(%x: tensor<256xf16, #src>, %p: tensor<256x!tt.ptr<f16>, #dst>) {
    %y = ttg.convert_layout %x : tensor<256xf16, #src> -> tensor<256xf16, #dst>
    tt.store %p, %y : tensor<256x!tt.ptr<f16>, #dst>
    tt.return
  }
}

// -----

// Eight bytes make two wavefronts; two of them beside each other would make four.

// CHECK-LABEL: .entry wide_elements(
// CHECK-NOT:      {{shfl|bar\.sync|[dt]\.shared\.v}}
// CHECK-COUNT-16: st.shared.b64
// CHECK-NEXT:     bar.sync
// CHECK-COUNT-16: ld.shared.b64
// CHECK-NOT:      {{shfl|[dt]\.shared|bar\.|matrix}}
// CHECK:          ret;

#src = #ttg.blocked<{sizePerThread = [1, 2], threadsPerWarp = [2, 16], warpsPerCTA = [2, 1], order = [1, 0]}>
#dst = #ttg.blocked<{sizePerThread = [2, 1], threadsPerWarp = [16, 2], warpsPerCTA = [1, 2], order = [0, 1]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 2 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @wide_elements(%x: tensor<32x32xf64, #src>, %p: tensor<32x32x!tt.ptr<f64>, #dst>) {
    %y = ttg.convert_layout %x : tensor<32x32xf64, #src> -> tensor<32x32xf64, #dst>
    tt.store %p, %y : tensor<32x32x!tt.ptr<f64>, #dst>
    tt.return
  }
}
