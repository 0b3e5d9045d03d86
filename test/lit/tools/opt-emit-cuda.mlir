// Every stage of an NVIDIA target, with and without passes; without them Triton lowers the conversion.
// RUN: triton-linear-opt %s --linear-pipeline --emit=mlir | FileCheck %s --check-prefix=MLIR
// RUN: triton-linear-opt %s --linear-pipeline --emit=ttgir | FileCheck %s --check-prefix=TTGIR
// RUN: triton-linear-opt %s --linear-pipeline --emit=llvm | FileCheck %s --check-prefix=LLVM
// RUN: triton-linear-opt %s --linear-pipeline --emit=llvmir | FileCheck %s --check-prefix=LLVMIR
// RUN: triton-linear-opt %s --linear-pipeline --emit=ptx -o %t.ptx
// RUN: FileCheck %s --check-prefix=PTX < %t.ptx
// RUN: triton-linear-opt %s --linear-pipeline --emit=ptx --target=cuda:80 | FileCheck %s --check-prefix=OLDER
// RUN: triton-linear-opt %s --linear-pipeline --emit=cubin -o %t.cubin
// RUN: grep -q ELF %t.cubin
// RUN: triton-linear-opt %s --emit=ttgir | FileCheck %s --check-prefix=STOCK

// MLIR:   tt.call @__ll_cvt_0(%arg0)
// TTGIR-NOT: __ll_cvt
// TTGIR:  tt.func public @kernel(%arg0: tensor<64xf32, #{{.*}}>
// TTGIR:  nvvm.shfl.sync
// TTGIR:  tt.store
// LLVM:   llvm.func @kernel(
// LLVM:   nvvm.shfl.sync
// LLVMIR: define {{.*}}void @kernel(
// LLVMIR: call i32 @llvm.nvvm.shfl.sync
// PTX:    .target sm_90a
// PTX:    .entry kernel(
// PTX:    shfl.sync
// OLDER:  .target sm_80
// STOCK:  ttg.convert_layout %arg0

#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
#pairs = #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [32], warpsPerCTA = [1], order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @kernel(%x: tensor<64xf32, #blocked>, %p: tensor<64x!tt.ptr<f32>, #pairs>) {
    %y = ttg.convert_layout %x : tensor<64xf32, #blocked> -> tensor<64xf32, #pairs>
    tt.store %p, %y : tensor<64x!tt.ptr<f32>, #pairs>
    tt.return
  }
}
