// RUN: triton-linear-opt %s --split-input-file --linear-select-lowering --linear-outline-conversions --emit=ptx | FileCheck %s

// Between our scratch and what else uses shared memory there is a barrier where bytes are shared, and none where
// they are not: the barrier inside a conversion serves for what came before it.

// The conversion's 2 KiB take the place of two dead buffers of 1 KiB. Only the second, not where the scratch begins,
// was read since the last barrier.
// CHECK-LABEL: .entry after_read(
// CHECK-COUNT-2: st.shared.v4.b32
// CHECK-NOT:   {{[dt]\.shared}}
// CHECK:       bar.sync
// CHECK-NOT:   {{st\.shared|bar\.}}
// CHECK:       ld.shared.v4.b32
// CHECK-NOT:   {{[dt]\.shared}}
// CHECK:       bar.sync
// CHECK-NOT:   {{st\.shared|bar\.}}
// CHECK:       ld.shared.v4.b32
// CHECK-NOT:   {{[dt]\.shared}}
// CHECK:       bar.sync
// CHECK-NOT:   {{ld\.shared|bar\.sync}}
// CHECK:       st.shared.v4.b32
// CHECK-NEXT:  bar.sync
// CHECK-NOT:   {{st\.shared|bar\.}}
// CHECK:       ld.shared.v4.b32
// CHECK-NOT:   {{[dt]\.shared|bar\.}}
// CHECK:       ret;

#src = #ttg.linear<{register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [[128], [256]], block = []}>
#dst = #ttg.linear<{register = [[1], [2]], lane = [[128], [256], [4], [8], [16]], warp = [[32], [64]], block = []}>
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @after_read(%x: tensor<512xf32, #src>, %y: tensor<256xf32, #src>, %p: tensor<512x!tt.ptr<f32>, #dst>, %q: tensor<256x!tt.ptr<f32>, #src>) {
    %a = ttg.local_alloc %y : (tensor<256xf32, #src>) -> !ttg.memdesc<256xf32, #shared, #smem, mutable>
    %b = ttg.local_alloc %y : (tensor<256xf32, #src>) -> !ttg.memdesc<256xf32, #shared, #smem, mutable>
    %a1 = ttg.local_load %a : !ttg.memdesc<256xf32, #shared, #smem, mutable> -> tensor<256xf32, #src>
    tt.store %q, %a1 : tensor<256x!tt.ptr<f32>, #src>
    gpu.barrier
    %b1 = ttg.local_load %b : !ttg.memdesc<256xf32, #shared, #smem, mutable> -> tensor<256xf32, #src>
    ttg.local_dealloc %a : !ttg.memdesc<256xf32, #shared, #smem, mutable>
    ttg.local_dealloc %b : !ttg.memdesc<256xf32, #shared, #smem, mutable>
    %c = ttg.convert_layout %x : tensor<512xf32, #src> -> tensor<512xf32, #dst>
    tt.store %p, %c : tensor<512x!tt.ptr<f32>, #dst>
    tt.store %q, %b1 : tensor<256x!tt.ptr<f32>, #src>
    tt.return
  }
}

// -----

// A buffer takes the place of the scratch, as there is no room for both.
// CHECK-LABEL: .entry before_write(
// CHECK-NOT:   {{ld\.shared|bar\.sync}}
// CHECK-COUNT-16: st.shared.v4.b32
// CHECK-NOT:   {{[dt]\.shared}}
// CHECK:       bar.sync
// CHECK-NOT:   {{st\.shared|bar\.}}
// CHECK-COUNT-16: ld.shared.v4.b32
// CHECK-NOT:   {{[dt]\.shared}}
// CHECK:       bar.sync
// CHECK-NOT:   {{ld\.shared|bar\.sync}}
// CHECK-COUNT-16: st.shared.v4.b32
// CHECK-NOT:   {{[dt]\.shared}}
// CHECK:       bar.sync
// CHECK-NOT:   {{st\.shared|bar\.}}
// CHECK-COUNT-16: ld.shared.v4.b32
// CHECK-NOT:   {{[dt]\.shared|bar\.}}
// CHECK:       ret;

#src = #ttg.linear<{register = [[1], [2], [512], [1024], [2048], [4096]], lane = [[4], [8], [16], [32], [64]], warp = [[128], [256]], block = []}>
#dst = #ttg.linear<{register = [[1], [2], [512], [1024], [2048], [4096]], lane = [[128], [256], [4], [8], [16]], warp = [[32], [64]], block = []}>
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @before_write(%x: tensor<8192xf32, #src>, %p: tensor<8192x!tt.ptr<f32>, #dst>) {
    %c = ttg.convert_layout %x : tensor<8192xf32, #src> -> tensor<8192xf32, #dst>
    %b = ttg.local_alloc %c : (tensor<8192xf32, #dst>) -> !ttg.memdesc<8192xf32, #shared, #smem, mutable>
    %x2 = ttg.local_load %b : !ttg.memdesc<8192xf32, #shared, #smem, mutable> -> tensor<8192xf32, #dst>
    tt.store %p, %x2 : tensor<8192x!tt.ptr<f32>, #dst>
    tt.return
  }
}

// -----

// A buffer that lives across the conversion is read behind its barrier, and needs no other.
// CHECK-LABEL: .entry across(
// CHECK-COUNT-2: st.shared.v4.b32
// CHECK-NEXT:  bar.sync
// CHECK-NOT:   {{st\.shared|bar\.}}
// CHECK:       ld.shared.v4.b32
// CHECK-NOT:   {{st\.shared|bar\.}}
// CHECK:       ld.shared.v4.b32
// CHECK-NOT:   {{[dt]\.shared|bar\.}}
// CHECK:       ret;

#src = #ttg.linear<{register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [[128], [256]], block = []}>
#dst = #ttg.linear<{register = [[1], [2]], lane = [[128], [256], [4], [8], [16]], warp = [[32], [64]], block = []}>
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @across(%x: tensor<512xf32, #src>, %p: tensor<512x!tt.ptr<f32>, #dst>, %q: tensor<512x!tt.ptr<f32>, #src>) {
    %b = ttg.local_alloc %x : (tensor<512xf32, #src>) -> !ttg.memdesc<512xf32, #shared, #smem, mutable>
    %c = ttg.convert_layout %x : tensor<512xf32, #src> -> tensor<512xf32, #dst>
    %x2 = ttg.local_load %b : !ttg.memdesc<512xf32, #shared, #smem, mutable> -> tensor<512xf32, #src>
    tt.store %p, %c : tensor<512x!tt.ptr<f32>, #dst>
    tt.store %q, %x2 : tensor<512x!tt.ptr<f32>, #src>
    tt.return
  }
}

// -----

// The same in a function that is called: Triton does not learn of the barrier inside.
// CHECK-LABEL: .entry caller(
// CHECK-LABEL: .func across(
// CHECK-COUNT-2: st.shared.v4.b32
// CHECK-NEXT:  bar.sync
// CHECK-NOT:   {{st\.shared|bar\.}}
// CHECK:       ld.shared.v4.b32
// CHECK-NOT:   {{[dt]\.shared}}
// CHECK:       bar.sync
// CHECK-NEXT:  ld.shared.v4.b32
// CHECK-NOT:   {{[dt]\.shared|bar\.}}
// CHECK:       ret;

#src = #ttg.linear<{register = [[1], [2]], lane = [[4], [8], [16], [32], [64]], warp = [[128], [256]], block = []}>
#dst = #ttg.linear<{register = [[1], [2]], lane = [[128], [256], [4], [8], [16]], warp = [[32], [64]], block = []}>
#shared = #ttg.swizzled_shared<{vec = 1, perPhase = 1, maxPhase = 1, order = [0]}>
#smem = #ttg.shared_memory
module attributes {"ttg.num-ctas" = 1 : i32, "ttg.num-warps" = 4 : i32, ttg.target = "cuda:90", "ttg.threads-per-warp" = 32 : i32} {
  tt.func public @caller(%x: tensor<512xf32, #src>, %p: tensor<512x!tt.ptr<f32>, #dst>, %q: tensor<512x!tt.ptr<f32>, #src>) {
    tt.call @across(%x, %p, %q) : (tensor<512xf32, #src>, tensor<512x!tt.ptr<f32>, #dst>, tensor<512x!tt.ptr<f32>, #src>) -> ()
    tt.return
  }
  tt.func private @across(%x: tensor<512xf32, #src>, %p: tensor<512x!tt.ptr<f32>, #dst>, %q: tensor<512x!tt.ptr<f32>, #src>) attributes {noinline = true} {
    %b = ttg.local_alloc %x : (tensor<512xf32, #src>) -> !ttg.memdesc<512xf32, #shared, #smem, mutable>
    %c = ttg.convert_layout %x : tensor<512xf32, #src> -> tensor<512xf32, #dst>
    %x2 = ttg.local_load %b : !ttg.memdesc<512xf32, #shared, #smem, mutable> -> tensor<512xf32, #src>
    tt.store %p, %c : tensor<512x!tt.ptr<f32>, #dst>
    tt.store %q, %x2 : tensor<512x!tt.ptr<f32>, #src>
    tt.return
  }
}
