"""The complaints, with the sizes that are compiled and launched."""

from __future__ import annotations

from ..harness.cases import unique
from ..kernels.kernel import Kernel, Tensor
from . import kernels
from .case import Added, Reported

TRITON = "https://github.com/triton-lang/triton/issues/"
HALF, FLOAT, FP8, BYTE, INT = "float16", "float32", "float8_e4m3fn", "int8", "int32"


def _cases() -> tuple[Reported, ...]:
    return unique(
        (
            Reported(
                "gather_attention",
                f"{TRITON}11373",
                "A decode kernel that gathers rows of a byte cache, with a scale for each group of them, "
                "takes twice the time since Triton 3.7.1 on an A100, with four warps: the load of scales, "
                "single bytes, inherits 16 elements a thread from its wide neighbour, and registers spill.",
                "Pull request 11689 gives such a load the other order, on compute capability 8.0 and with "
                "four warps only; it is open. 6.48 ms become 2.46 ms.",
                Kernel(
                    kernels.gather_attention,
                    {
                        "slot_ptr": Tensor(INT, (264 * 32 * 64,), 65536, index=True),
                        "cache_ptr": Tensor(BYTE, (65536, 512), 128),
                        "scale_ptr": Tensor(BYTE, (65536, 8), 4),
                        "q_ptr": Tensor("bfloat16", (264, 16, 512)),
                    },
                    {"out_ptr": Tensor("bfloat16", (264, 16, 512))},
                    (264,),
                    {"steps": 64, "scale": 5e-4},
                    {"HEADS": 16, "BLOCK": 32, "DIM": 512, "GROUP": 64},
                    {"num_warps": 4, "num_stages": 1},
                ),
                ("stack", "shared loads", "barriers"),
                target="cuda:80",
            ),
            Reported(
                "gather_bytes",
                f"{TRITON}11373",
                "The same choice of layouts without a product: each scale goes through shared memory, and "
                "registers spill with Triton 3.6.0.",
                "Later releases load scales in the layout of their neighbour.",
                Kernel(
                    kernels.gather_bytes,
                    {
                        "slot_ptr": Tensor(INT, (264 * 32 * 64,), 65536, index=True),
                        "cache_ptr": Tensor(BYTE, (65536, 512), 128),
                        "scale_ptr": Tensor(BYTE, (65536, 8), 8),
                        "q_ptr": Tensor(HALF, (264, 512)),
                    },
                    {"out_ptr": Tensor(FLOAT, (264, 512))},
                    (264,),
                    {"steps": 64},
                    {"BLOCK": 32, "DIM": 512, "GROUP": 64},
                    {"num_warps": 4, "num_stages": 1},
                ),
                ("global loads", "registers", "stack"),
                tolerance=1e-3,
            ),
            Reported(
                "chained_division",
                f"{TRITON}10987",
                "Two divisions of a tile by a number of each row become 2,080 in the PTX: all lanes "
                "compute all elements of their warp's rows, and ptxas takes seconds.",
                "Pull request 11309 preferred layouts with fewer elements a thread, was merged and "
                "reverted; 11117 is open.",
                Kernel(
                    kernels.chained_division,
                    {"x_ptr": Tensor(FLOAT, (65536, 256))},
                    {"sums_ptr": Tensor(FLOAT, (65536,))},
                    (1024,),
                    {"steps": 4},
                    {"ROWS": 16, "COLUMNS": 256},
                    {"num_warps": 4},
                ),
                ("divisions", "PTX lines"),
                tolerance=1e-4,
            ),
            Reported(
                "divided_places",
                f"{TRITON}11117",
                "The same choice of layouts with integer divisions, as index arithmetic of generated "
                "kernels has them: what a layout repeats is divided again.",
                "As for the case before.",
                Kernel(
                    kernels.divided_places,
                    {
                        "index_ptr": Tensor(INT, (2048, 8448), 1 << 20, index=True),
                        "x_ptr": Tensor(FLOAT, (1 << 21,)),
                    },
                    {"out_ptr": Tensor(FLOAT, (8448,))},
                    (132,),
                    {"height": 1000, "width": 1040, "steps": 32},
                    {"ROWS": 64, "COLUMNS": 64},
                    {"num_warps": 4},
                ),
                ("divisions", "PTX lines"),
                tolerance=1e-4,
            ),
            Reported(
                "reduced_then_stored",
                f"{TRITON}8775",
                "A reduction brings its results to every thread through shared memory, and a conversion "
                "takes them through it once more.",
                "Reductions are lowered by linear layouts since pull request 9192 (Triton 3.7), which "
                "saves a round trip in part of the cases; the conversion stays.",
                Kernel(
                    kernels.reduced_then_stored,
                    {"x_ptr": Tensor(HALF, (4096, 8448))},
                    {"out_ptr": Tensor(FLOAT, (32, 8448))},
                    (66,),
                    {"rows": 4096, "columns": 8448},
                    {"BLOCK_M": 128, "BLOCK_N": 128},
                    {"num_warps": 8},
                ),
                ("shared loads", "shared stores", "barriers"),
                tolerance=1e-4,
            ),
            Reported(
                "dot_atomics",
                f"{TRITON}4717",
                "Atomics behind a dot convert the accumulator in every iteration: 129 TFLOPS in a "
                "backward of attention, 226 with inline assembly that takes the accumulator as it lies.",
                "Nothing; the issue is open.",
                Added(
                    kernels.dot_atomics,
                    {"a_ptr": Tensor(HALF, (2048, 2048)), "b_ptr": Tensor(HALF, (2048, 2048))},
                    {"out_ptr": Tensor(FLOAT, (2048, 2048))},
                    (16, 16, 8),
                    {"k": 2048, "n": 2048},
                    {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 64, "INNER": 4},
                    {"num_warps": 8},
                ),
                ("atomics", "shared loads", "shared stores", "barriers"),
                tolerance=1e-3,
            ),
            Reported(
                "layer_norm",
                f"{TRITON}11127",
                "A layer norm of long rows takes 90 µs with Triton 3.7 and 60 with 3.6 on a B200: 72 "
                "registers instead of 64, so that a multiprocessor takes one CTA and not two.",
                "Nothing in a release yet: the newer LLVM chooses additions of halves to floats.",
                Kernel(
                    kernels.layer_norm,
                    {
                        "x_ptr": Tensor(HALF, (4096, 15360)),
                        "w_ptr": Tensor(HALF, (15360,)),
                        "b_ptr": Tensor(HALF, (15360,)),
                    },
                    {"out_ptr": Tensor(HALF, (4096, 15360))},
                    (4096,),
                    {"columns": 15360, "epsilon": 1e-5},
                    {"BLOCK": 16384},
                    {"num_warps": 16, "num_stages": 2},
                ),
                ("registers", "stack"),
                target="cuda:100",
                tolerance=2e-3,
            ),
            Reported(
                "attention_bytes",
                "https://github.com/pytorch/pytorch/pull/153357",
                "In fp8 the V operand has to lie with its rows together; as it lies in memory otherwise, "
                "each thread stores single bytes to shared memory, against each other's banks, and the "
                "load is not pipelined.",
                "PyTorch asks for V in the other order; the compiler does as before.",
                Kernel(
                    kernels.attention_bytes,
                    {name: Tensor(FP8, (32, 2048, 128)) for name in ("q_ptr", "k_ptr", "v_ptr")},
                    {"out_ptr": Tensor(HALF, (32, 2048, 128))},
                    (16, 32),
                    {"length": 2048, "scale": 0.1275},
                    {"BLOCK_M": 128, "BLOCK_N": 64, "DIM": 128},
                    {"num_warps": 8, "num_stages": 3},
                ),
                ("copies", "shared loads", "shared stores"),
                tolerance=0.13,
            ),
            Reported(
                "transpose_tile",
                f"{TRITON}7815",
                "A transpose of tiles of 128x128 moves 1.7 TB/s where other shapes move 2.8.",
                "The swizzles of conversions were chosen anew (7565, 7833), without effect on this case, "
                "as its thread says.",
                Kernel(
                    kernels.transpose_tile,
                    {"x_ptr": Tensor("bfloat16", (8192, 8192))},
                    {"out_ptr": Tensor("bfloat16", (8192, 8192))},
                    (64, 64),
                    {"rows": 8192, "columns": 8192},
                    {"BLOCK_M": 128, "BLOCK_N": 128},
                    {"num_warps": 8},
                ),
                ("shared loads", "shared stores", "barriers"),
            ),
            Reported(
                "channels_last",
                f"{TRITON}7815",
                "The same as a copy of images to channels last, with a scale.",
                "As for the case before.",
                Kernel(
                    kernels.channels_last,
                    {"x_ptr": Tensor(HALF, (64, 256, 3136)), "scale_ptr": Tensor(HALF, (256,))},
                    {"out_ptr": Tensor(HALF, (64, 3136, 256))},
                    (49, 4, 64),
                    {"pixels": 3136, "channels": 256},
                    {"PIXELS": 64, "CHANNELS": 64},
                    {"num_warps": 4},
                ),
                ("shared loads", "shared stores", "barriers"),
            ),
            Reported(
                "sigmoid_epilogue",
                "https://github.com/facebookexperimental/triton/pull/1186",
                "A product with a pointwise epilogue holds the whole accumulator beside what the epilogue "
                "reads: spills with a tile of 256 rows.",
                "Loads of parts from tensor memory, on Blackwell only.",
                Kernel(
                    kernels.sigmoid_epilogue,
                    {
                        "a_ptr": Tensor(HALF, (1152 // 128 * 128, 1024)),
                        "b_ptr": Tensor(HALF, (1024, 12800)),
                        "gate_ptr": Tensor(HALF, (1152, 12800)),
                    },
                    {"out_ptr": Tensor(HALF, (1152, 12800))},
                    (9, 50),
                    {"n": 12800, "k": 1024},
                    {"BLOCK_M": 128, "BLOCK_N": 256, "BLOCK_K": 64},
                    {"num_warps": 8, "num_stages": 3},
                ),
                ("registers", "stack", "shared loads", "shared stores"),
            ),
            Reported(
                "block_scaled",
                f"{TRITON}6206",
                "Kernels that multiply and scale in turn became slower, among other things by conversions "
                "of the scales.",
                "Open.",
                Kernel(
                    kernels.block_scaled,
                    {
                        "a_ptr": Tensor(FP8, (2048, 4096)),
                        "b_ptr": Tensor(FP8, (4096, 4096)),
                        "row_scale_ptr": Tensor(FLOAT, (32, 2048)),
                        "column_scale_ptr": Tensor(FLOAT, (32, 4096)),
                    },
                    {"out_ptr": Tensor(HALF, (2048, 4096))},
                    (16, 32),
                    {"m": 2048, "n": 4096, "k": 4096},
                    {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 128},
                    {"num_warps": 8, "num_stages": 3},
                ),
                ("shared loads", "shared stores", "barriers"),
                tolerance=2e-3,
            ),
            Reported(
                "scaled_rows",
                f"{TRITON}11161",
                "A vector of scales, loaded once for all rows, is converted to the layout of the rows, "
                "and so are the results of the reduction.",
                "Pull request 11161 removes such conversions at the borders of memory; it was closed.",
                Kernel(
                    kernels.scaled_rows,
                    {
                        "x_ptr": Tensor(BYTE, (16384, 1024), 128),
                        "scale_ptr": Tensor(HALF, (1024,)),
                        "bias_ptr": Tensor(HALF, (1024,)),
                    },
                    {"out_ptr": Tensor(HALF, (16384, 1024)), "peak_ptr": Tensor(FLOAT, (512, 1024))},
                    (512,),
                    {"steps": 4},
                    {"ROWS": 8, "COLUMNS": 1024},
                    {"num_warps": 4},
                ),
                ("shared loads", "shared stores", "barriers"),
            ),
            Reported(
                "embedding_sum",
                f"{TRITON}8706",
                "A sum of rows that a list names converts a tensor in every iteration, because each load "
                "takes the layout that suits it alone.",
                "The proposal is open.",
                Kernel(
                    kernels.embedding_sum,
                    {
                        "index_ptr": Tensor("int64", (1024, 128), 4096, index=True),
                        "table_ptr": Tensor(FLOAT, (4096, 128)),
                    },
                    {"out_ptr": Tensor(FLOAT, (1024, 128))},
                    (1024,),
                    {"many": 128},
                    {"X": 128, "R": 32, "DIM": 128},
                    {"num_warps": 8},
                ),
                ("shared loads", "shared stores", "barriers"),
                tolerance=1e-4,
            ),
            Reported(
                "transposed_operand",
                f"{TRITON}6569",
                "An operand of a dot that lies transposed in memory is rearranged through shared memory "
                "in every iteration.",
                "Open.",
                Kernel(
                    kernels.transposed_operand,
                    {"a_ptr": Tensor(FLOAT, (2048, 2048)), "b_ptr": Tensor(FLOAT, (2048, 2048))},
                    {"out_ptr": Tensor(FLOAT, (2048, 2048))},
                    (32, 16),
                    {"n": 2048, "k": 2048},
                    {"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 32},
                    {"num_warps": 4, "num_stages": 3},
                ),
                ("copies", "shared loads", "shared stores"),
                tolerance=1e-3,
            ),
        )
    )


CASES = unique(_cases())
