"""What is fetched of the servers' wheels: the modules with kernels, and those that they cannot do without.

Every module of a server that is not among these is a stand-in (`standins`). Packages' own `__init__` are left
out but where they have something to say. Of the tables of configurations those for an H100 are here: an H200,
which has tables of its own for some sizes only, is given the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..foreign.packages import EINOPS, Package

TABLES = "*device_name=NVIDIA_H100_80GB_HBM3*.json"


def modules(package: str, names: str) -> Iterator[str]:
    """The files of modules.

    >>> list(modules("a.b", "c d"))
    ['a/b/c.py', 'a/b/d.py']
    """
    return (f"{package.replace('.', '/')}/{name}.py" for name in names.split())


VLLM = (
    *modules("vllm", "envs scalar_type"),
    *modules("vllm.utils", "math_utils"),
    *modules("vllm.triton_utils", "__init__ allocation tensor_descriptor"),
    *modules(
        "vllm.v1.attention.ops",
        "common int4_per_token_head prefix_prefill triton_attention_helpers triton_decode_attention "
        "triton_merge_attn_states triton_prefill_attention triton_reshape_and_cache_flash "
        "triton_unified_attention",
    ),
    *modules("vllm.lora.ops.triton_ops", "fused_moe_lora_op kernel_utils lora_expand_op lora_shrink_op utils"),
    *modules("vllm.model_executor.determinism", "batch_invariant"),
    *modules("vllm.model_executor.kernels.linear.mixed_precision", "triton_w4a16"),
    *modules(
        "vllm.model_executor.layers.fused_moe",
        "activation fused_moe moe_align_block_size moe_fused_mul_sum utils experts/fused_batched_moe",
    ),
    f"vllm/model_executor/layers/fused_moe/configs/{TABLES}",
    *modules("vllm.model_executor.layers", "fused_qk_norm_rope lightning_attn"),
    *modules(
        "vllm.model_executor.layers.mamba.ops",
        "causal_conv1d mamba_ssm ssd_bmm ssd_chunk_scan ssd_chunk_state ssd_combined ssd_state_passing "
        "triton_helpers",
    ),
    *modules("vllm.model_executor.layers.quantization", "awq_triton compressed_tensors/triton_scaled_mm"),
    *modules(
        "vllm.model_executor.layers.quantization.utils",
        "fp8_utils int8_utils mxfp4_utils mxfp8_utils nvfp4_emulation_utils",
    ),
    f"vllm/model_executor/layers/quantization/utils/configs/{TABLES}",
    *modules("vllm.model_executor.layers.rotary_embedding", "mrope"),
    *modules("vllm.model_executor.warmup", "jit_warmup jit_warmup_triton_helper"),
    *modules("vllm.models.minimax_m3.common.ops", "index_topk sparse_attn"),
    *modules("vllm.models.deepseek_v32.common", "kernels"),
    "vllm/third_party/flash_linear_attention",
    "vllm/third_party/triton_kernels",
    *modules("vllm.v1.sample", "rejection_sampler ops/topk_topp_triton"),
    *modules("vllm.v1.spec_decode", "utils"),
    *modules("vllm.v1.worker.gpu.sample", "gumbel logprob min_p penalties"),
    "vllm/v1/worker/gpu/sample/logits_processor",
)
SGLANG = (
    *modules(
        "sglang.kernels.ops.attention",
        "decode_attention extend_attention fused_qk_rmsnorm_rope_gate fused_qk_rope_reshape_and_cache "
        "merge_state metadata mla_qk_prep prefill_attention rotary_triton score_mod table_qk_norm_rope "
        "triton_gdn_fused_proj verify_splitkv",
    ),
    *modules("sglang.kernels.ops.attention.dsa", "triton_sparse_mla triton_sparse_mla_prefill"),
    *modules("sglang.kernels.ops.attention.fla", "fused_recurrent layernorm_gated op utils"),
    *modules(
        "sglang.kernels.ops.attention.linear",
        "__init__ fused_sigmoid_gating_recurrent lightning_attn",
    ),
    *modules("sglang.kernels.ops.elementwise", "elementwise"),
    *modules("sglang.kernels.ops.gemm", "fp8_kernel int8_kernel"),
    f"sglang/kernels/ops/gemm/configs/{TABLES}",
    *modules("sglang.kernels.ops.kvcache", "mla_buffer set_mla_kv_buffer"),
    *modules("sglang.kernels.ops.layernorm", "fused_rmsnorm mhc_head"),
    *modules(
        "sglang.kernels.ops.lora.dense",
        "gate_up_lora_b kernel_utils qkv_lora_b sgemm_lora_a sgemm_lora_b",
    ),
    *modules("sglang.kernels.ops.mamba", "causal_conv1d_triton"),
    "sglang/kernels/ops/mamba/triton_ops",
    *modules(
        "sglang.kernels.ops.moe",
        "ep_moe_kernels fused_moe_triton_kernels moe_fused_gate moe_route_radix router",
    ),
    f"sglang/srt/layers/moe/moe_runner/triton_utils/configs/{TABLES}",
    *modules(
        "sglang.kernels.ops.quantization",
        "act_quant_triton fp8_kernel fp8_utils int8_kernel per_tensor_quant_fp8 per_token_group_quant",
    ),
    *modules("sglang.kernels.ops.sampling", "temperature_softmax"),
    *modules("sglang.kernels.ops.speculative", "reject_sampling spec_tree tree"),
    *modules("sglang.srt.batch_invariant_ops", "batch_invariant_ops"),
    *modules("sglang.srt.layers", "logsumexp"),
)

PACKAGES = (
    Package(
        "vllm",
        "0.33.0",
        "4b6bdec4ab269990bf70d45a3c1e94c3760a27064513760193b26d6f0da883aa",
        VLLM,
        kinds=(".py", ".json"),
    ),
    Package(
        "sglang",
        "0.5.23",
        "8d257a319395b322bb1be327d05e5528859358153c8563b04c0a4a3c8af164b6",
        SGLANG,
        kinds=(".py", ".json"),
    ),
    EINOPS,
)
SERVERS = tuple(package.name for package in PACKAGES if package.kernels)
