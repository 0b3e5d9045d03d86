// The legacy lowering: padded memory, barriers of the CTA, no shuffles, no matrix instructions.
// RUN: triton-linear-opt %s --split-input-file --linear-pipeline --no-assign --no-reductions --lowering=legacy --emit=ptx | FileCheck %s

// Rounds of 8 rows, as many as the source covers at once. A row is of 64 bytes, and of 16 more that nobody uses: the
// four neighbours that a thread stores. Loads are of one element, two rows apart.

// CHECK-LABEL: .entry rows_to_scalars(
// CHECK-NOT:     {{shfl|stmatrix|ldmatrix|bar\.}}
// CHECK:         st.shared.v4.b32 [[[STORED:%r[0-9]+]]],
// CHECK-NEXT:    bar.sync 0;
// CHECK:         ld.shared.b32 {{%r[0-9]+}}, [[[LOADED:%r[0-9]+]]];
// CHECK-NEXT:    ld.shared.b32 {{%r[0-9]+}}, [[[LOADED]]+160];
// CHECK-NEXT:    ld.shared.b32 {{%r[0-9]+}}, [[[LOADED]]+320];
// CHECK-NEXT:    ld.shared.b32 {{%r[0-9]+}}, [[[LOADED]]+480];
// CHECK-NEXT:    bar.sync 0;
// CHECK-NEXT:    st.shared.v4.b32 [[[STORED]]],
// CHECK-NEXT:    bar.sync 0;
// CHECK-COUNT-4: ld.shared.b32
// CHECK-NOT:     {{[dt]\.shared|bar\.|shfl}}
// CHECK:         st.global

#row = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [1, 1], order = [1, 0]}>
#scalars = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [2, 16], warpsPerCTA = [1, 1], order = [1, 0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @rows_to_scalars(%x: tensor<16x16xf32, #row>, %p: tensor<16x16x!tt.ptr<f32>, #scalars>) {
    %y = ttg.convert_layout %x : tensor<16x16xf32, #row> -> tensor<16x16xf32, #scalars>
    tt.store %p, %y : tensor<16x16x!tt.ptr<f32>, #scalars>
    tt.return
  }
}

// -----

// Two encodings of one layout, of unlike kinds: a line has no padding, and no thread needs what another stores.

// CHECK-LABEL: .entry equal_maps(
// CHECK:         st.shared.b32
// CHECK-NEXT:    bar.sync 0;
// CHECK-NEXT:    ld.shared.b32

#parent = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [32, 1], warpsPerCTA = [1, 1], order = [1, 0]}>
#slice = #ttg.slice<{dim = 1, parent = #parent}>
#line = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @equal_maps(%x: tensor<32xf32, #slice>, %p: tensor<32x!tt.ptr<f32>, #line>) {
    %y = ttg.convert_layout %x : tensor<32xf32, #slice> -> tensor<32xf32, #line>
    tt.store %p, %y : tensor<32x!tt.ptr<f32>, #line>
    tt.return
  }
}
