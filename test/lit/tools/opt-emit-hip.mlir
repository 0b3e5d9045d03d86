// Every stage of an AMD target.
// RUN: triton-linear-opt %s --linear-pipeline --emit=llvm | FileCheck %s --check-prefix=LLVM
// RUN: triton-linear-opt %s --linear-pipeline --emit=llvmir | FileCheck %s --check-prefix=LLVMIR
// RUN: triton-linear-opt %s --linear-pipeline --emit=amdgcn | FileCheck %s --check-prefix=AMDGCN
// RUN: triton-linear-opt %s --linear-pipeline --emit=amdgcn --target=hip:gfx950 | FileCheck %s --check-prefix=NEWER
// RUN: triton-linear-opt %s --linear-pipeline --emit=hsaco -o %t.hsaco
// RUN: grep -q ELF %t.hsaco

// LLVM:   rocdl.ds_bpermute
// LLVMIR: define amdgpu_kernel void @kernel(
// LLVMIR: call i32 @llvm.amdgcn.ds.bpermute(
// AMDGCN: .amdgcn_target "{{.*}}-gfx942"
// AMDGCN: ds_bpermute_b32
// NEWER:  .amdgcn_target "{{.*}}-gfx950"

#blocked = #ttg.blocked<{sizePerThread = [1], threadsPerWarp = [64], warpsPerCTA = [1], order = [0]}>
#pairs = #ttg.blocked<{sizePerThread = [2], threadsPerWarp = [64], warpsPerCTA = [1], order = [0]}>
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 1 : i32, ttg.target = "hip:gfx942", "ttg.threads-per-warp" = 64 : i32} {
  tt.func public @kernel(%x: tensor<128xf32, #blocked>, %p: tensor<128x!tt.ptr<f32>, #pairs>) {
    %y = ttg.convert_layout %x : tensor<128xf32, #blocked> -> tensor<128xf32, #pairs>
    tt.store %p, %y : tensor<128x!tt.ptr<f32>, #pairs>
    tt.return
  }
}
