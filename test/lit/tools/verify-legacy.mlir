// The legacy lowering of a module, run like any other.
// RUN: triton-linear verify %s --lowering=legacy | FileCheck %s
// RUN: triton-linear verify %s | FileCheck %s --check-prefix=LINEAR

// CHECK:      16x16xf32 blocked -> blocked: padded: 2 stores of 128 bits, 8 loads of 32 bits, 3 barriers, 640 bytes of scratch; {{.*}}, 0 shuffles, {{.*}}, 3 barriers; 0 wrong of 256, 0 races, plan proved
// CHECK-NEXT: 1 conversion verified, 0 wrong

// LINEAR-NOT: padded
// LINEAR:     1 conversion verified, 0 wrong

#row = #ttg.blocked<{sizePerThread = [1, 4], threadsPerWarp = [8, 4], warpsPerCTA = [1, 1], order = [1, 0]}>
#scalars = #ttg.blocked<{sizePerThread = [1, 1], threadsPerWarp = [2, 16], warpsPerCTA = [1, 1], order = [1, 0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @rows_to_scalars(%x: tensor<16x16xf32, #row>, %p: tensor<16x16x!tt.ptr<f32>, #scalars>) {
    %y = ttg.convert_layout %x : tensor<16x16xf32, #row> -> tensor<16x16xf32, #scalars>
    tt.store %p, %y : tensor<16x16x!tt.ptr<f32>, #scalars>
    tt.return
  }
}
