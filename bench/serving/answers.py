"""What modules of the servers that are not there have to know: that there is an H100, how one rounds up.

Decorators give what they decorate, and registered operators are plain functions in `torch.ops`. What no table
has means nothing (`standins.Anything`).
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

CAPABILITY = (9, 0)
NAME = "NVIDIA H100 80GB HBM3"
"""As tables of configurations spell it."""
MULTIPROCESSORS = 132


class Capability(tuple[int, int]):
    """As vLLM has it."""

    major = property(lambda self: self[0])
    minor = property(lambda self: self[1])

    def to_int(self) -> int:
        return int(self.major * 10 + self.minor)


def _number(capability: Any) -> int:
    return int(capability if isinstance(capability, int) else capability[0] * 10 + capability[1])


class Platform:
    """vLLM's, of that GPU; whatever else is asked is not so."""

    device_type = device_name = "cuda"
    dispatch_key = "CUDA"
    capabilities = SimpleNamespace(supports_triton=True)

    def is_cuda(self) -> bool:
        return True

    is_cuda_alike = supports_fp8 = is_cuda

    def fp8_dtype(self) -> Any:
        import torch

        return torch.float8_e4m3fn

    def get_device_capability(self, device_id: int = 0) -> Capability:
        return Capability(CAPABILITY)

    def has_device_capability(self, capability: Any, device_id: int = 0) -> bool:
        return _number(capability) <= _number(CAPABILITY)

    def is_device_capability(self, capability: Any, device_id: int = 0) -> bool:
        return _number(capability) == _number(CAPABILITY)

    def is_device_capability_family(self, capability: int, device_id: int = 0) -> bool:
        return capability // 10 == CAPABILITY[0]

    def get_device_name(self, device_id: int = 0) -> str:
        return NAME

    def num_compute_units(self, device_id: int = 0) -> int:
        return MULTIPROCESSORS

    def __getattr__(self, name: str) -> Callable[..., bool]:
        if name.startswith("__"):
            raise AttributeError(name)
        return no


class WithoutCuda(Platform):
    """For operators that would take a kernel of CUDA's where they have one."""

    def is_cuda(self) -> bool:
        return False

    is_cuda_alike = is_cuda


class QuantMode(enum.IntEnum):
    """How vLLM's cache of keys and values is quantised."""

    NONE = 0
    FP8_PER_TENSOR = 1
    INT8_PER_TOKEN_HEAD = 2
    FP8_PER_TOKEN_HEAD = 3
    INT4_PER_TOKEN_HEAD = 4
    NVFP4 = 5

    @property
    def is_per_token_head(self) -> bool:
        return self in (
            QuantMode.INT8_PER_TOKEN_HEAD,
            QuantMode.FP8_PER_TOKEN_HEAD,
            QuantMode.INT4_PER_TOKEN_HEAD,
        )


class Unset:
    """SGLang's environment variables, none of them set."""

    def get(self, *_: Any) -> None:
        return None

    is_set = get

    def __getattr__(self, name: str) -> Unset:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __bool__(self) -> bool:
        return False


class Runtime:
    """What SGLang knows of the GPU."""

    is_cuda = is_sm90 = True

    def __getattr__(self, name: str) -> bool:
        if name.startswith("__"):
            raise AttributeError(name)
        return False


def no(*_: Any, **__: Any) -> bool:
    """Whatever was asked: it is not so."""
    return False


def yes(*_: Any, **__: Any) -> bool:
    """Whatever was asked: it is so."""
    return True


def given(value: Any) -> Callable[..., Any]:
    """A function that gives the value, whatever it is called with."""
    return lambda *_, **__: value


def registered(op_name: Any = None, op_func: Any = None, *_: Any, **__: Any) -> None:
    """An operator is a function under its name."""
    import torch

    if isinstance(op_name, str) and callable(op_func):
        for server in ("vllm", "sglang"):
            setattr(getattr(torch.ops, server), op_name, op_func)


def decorated(function: Any = None, **_: Any) -> Any:
    """A decorator, with options or without, that changes nothing."""
    return function if callable(function) else decorated


def ceil_div(a: int, b: int) -> int:
    return -(-a // b)


def align(a: int, b: int) -> int:
    return ceil_div(a, b) * b


def next_power_of_2(n: int) -> int:
    return 1 << (n - 1).bit_length() if n > 0 else 1


def _sglang_utils() -> dict[str, Any]:
    false = (
        "is_hip is_npu is_xpu is_cpu is_musa is_hpu is_mps is_in_ci is_gfx94_supported is_gfx95_supported "
        "is_gfx1250_supported is_rdna is_gfx1x is_sm100_supported is_sm120_supported is_sm120 is_blackwell "
        "is_blackwell_supported cpu_has_amx_support use_intel_amx_backend use_intel_xpu_backend "
        "is_flashinfer_available get_bool_env_var"
    )
    true = (
        "is_cuda is_cuda_alike is_sm90_supported is_arch_support_pdl supports_custom_op support_triton "
        "is_non_idle_and_non_empty is_nvidia_cublas_cu12_version_ge_12_9"
    )
    return {
        **dict.fromkeys(false.split(), no),
        **dict.fromkeys(true.split(), yes),
        "get_device_capability": given(CAPABILITY),
        "get_device_sm": given(_number(CAPABILITY)),
        "get_device_core_count": given(MULTIPROCESSORS),
        "get_device_name": given(NAME),
        "get_device": given("cuda"),
        "get_int_env_var": lambda name, default=0: default,
        "get_float_env_var": lambda name, default=0.0: default,
        "ceil_div": ceil_div,
        "ceil_align": align,
        "align": align,
        "next_power_of_2": next_power_of_2,
        "direct_register_custom_op": registered,
        "register_custom_op": decorated,
        "register_custom_op_from_extern": decorated,
        "cached_triton_kernel": lambda *_, **__: decorated,
        "get_compiler_backend": given("eager"),
        "lru_cache_frozen": functools.lru_cache,
    }


def answers() -> dict[str, dict[str, Any]]:
    """What is in each module."""
    import torch

    def to_device(values: Any, dtype: Any = None, device: str = "cuda", **_: Any) -> Any:
        return torch.tensor(values, dtype=dtype).to(device)

    platforms = {"current_platform": Platform()}
    sglang = _sglang_utils()
    return {
        "vllm.platforms": platforms,
        "vllm.triton_utils.importing": {"HAS_TRITON": True},
        "vllm.utils.import_utils": {
            "has_triton_kernels": yes,
            "get_triton_kernels_version": given("3.5.1"),
        },
        "vllm.utils.torch_utils": {
            "direct_register_custom_op": registered,
            "LayerName": type("LayerName", (str,), {}),
            "is_torch_equal_or_newer": yes,
            "async_tensor_h2d": to_device,
        },
        "vllm.utils.platform_utils": {
            "get_device_name_as_file_name": given(NAME.replace(" ", "_")),
            "num_compute_units": given(MULTIPROCESSORS),
        },
        "vllm.v1.kv_cache_interface": {
            "KVQuantMode": QuantMode,
            "is_quantized_kv_cache": lambda name: name.startswith(("fp8", "int8", "int4")),
            "get_kv_quant_mode": lambda name: QuantMode(name.startswith("fp8")),
        },
        "vllm.v1.attention.backends.utils": {"PAD_SLOT_ID": -1, "NULL_BLOCK_ID": 0},
        "vllm.model_executor.determinism.batch_invariant_configs": {
            "_get_matmul_config": lambda m, n, k, dtype, usual: usual,
            "_get_descriptor_matmul_config": lambda m, n, k, dtype, usual: usual,
        },
        "vllm.model_executor.layers.quantization.utils.quant_utils": {
            "get_fp8_min_max": given((-448.0, 448.0)),
            "FP8_DTYPE": torch.float8_e4m3fn,
        },
        "sglang.srt.platforms": platforms,
        "sglang.srt.environ": {"envs": Unset()},
        "sglang.srt.layers.dp_attention": {"is_dp_attention_enabled": no},
        "sglang.srt.runtime_context": {"get_platform": Runtime},
        **dict.fromkeys(
            (
                "sglang.srt.utils",
                "sglang.srt.utils.common",
                "sglang.srt.utils.custom_op",
                "sglang.kernels.utils",
                "sglang.kernels.jit.utils",
            ),
            sglang,
        ),
    }
