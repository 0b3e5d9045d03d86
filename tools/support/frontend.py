"""Compile a kernel's source to TTGIR by stock Triton, without a GPU and without a cache."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.compiler.compiler import make_backend


def ttgir_of(source: ASTSource, gpu: GPUTarget, launch_options: Mapping[str, int]) -> Any:
    """The libtriton module of a kernel after the stage `ttgir` of `gpu`'s backend; no device is queried."""
    backend = make_backend(gpu)
    options = backend.parse_options({**launch_options, **source.parse_options()})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    generators = backend.get_codegen_implementation(options)
    module = source.make_ir(gpu, options, generators, backend.get_module_map(), context)
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, source.language)
    metadata: dict[str, Any] = {"target": gpu, **options.__dict__}
    for stage in [name for name in ("ttir", "ttgir") if name in stages]:  # Gluon has no ttir
        module = stages[stage](module, metadata)
        module.context = context
    return module
