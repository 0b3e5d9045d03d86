"""The packages whose kernels run: pinned, and of each only the files that its operators need.

They travel as one archive in `.gpu`, which `python -m bench.foreign.fetch` makes. Nothing of them is in this
repository.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

ROOT = Path(__file__).parents[2]
ELSEWHERE = ("transformers",)
"""What packages import where it is installed, and do without where it is not: here they do without."""


@dataclass(frozen=True)
class Package:
    """One wheel of PyPI.

    `keep`: paths in the wheel of which the files of these `kinds` are kept, or patterns (with `*`) of such
    files. `drop`: paths below these that are not. `bare`: modules whose `__init__` would import what is not
    there; they stay empty, and lead to their submodules. `kernels`: whether it has kernels, or is there because
    others import it.
    """

    name: str
    version: str
    sha256: str
    keep: Sequence[str]
    drop: Sequence[str] = ()
    bare: Sequence[str] = ()
    kernels: bool = True
    kinds: tuple[str, ...] = (".py", ".yaml")


EINOPS = Package(
    "einops",
    "0.8.2",
    "54058201ac7087911181bfec4af6091bb59380360f069276601256a76af08193",
    ("einops",),
    kernels=False,
)
PACKAGES = (
    Package(
        "liger-kernel",
        "0.8.5",
        "60789cd576af073ab9b192b570d2597fd0cdad489cd62fb44fb16256d43754c9",
        ("liger_kernel/utils.py", "liger_kernel/functional.py", "liger_kernel/backends", "liger_kernel/ops"),
        ("liger_kernel/ops/backends/_ascend",),
        ("liger_kernel", "liger_kernel.ops"),
    ),
    # flash-linear-attention has layers and models; its operators are in this wheel.
    Package(
        "fla-core",
        "0.6.0",
        "b0708b70e0b119cd58a0a5146ea56cb175cef6ed969d8ac60267e3e077ce3ebd",
        ("fla",),
    ),
    Package(
        "flag-gems",
        "5.0.2",
        "d7c5a6121bf2d3f7daddde43bfa7cae739de6cb5b294dcfe7ae6173045c35552",
        ("flag_gems",),
    ),
    Package(
        "conch-triton-kernels",
        "1.3",
        "bbbdbbcc2ea5650f582a00d9c9ad9ca65b822a64b3cf41856c5e83efcdbe7cea",
        ("conch",),
    ),
    Package(
        "bitsandbytes",
        "0.50.2",
        "55348a9a4a21bfd99cf8c7b32fe67b4030ae5c2a05738e03c1747f65fa6ec283",
        ("bitsandbytes/backends/triton",),
        (),
        ("bitsandbytes", "bitsandbytes.backends", "bitsandbytes.backends.triton"),
    ),
    Package(
        "torchao",
        "0.18.0",
        "6540b148e40ba81cbd4de86392225a076a1591146e9cebb099b3b234ba9feebe",
        (
            "torchao/kernel",
            "torchao/prototype/attention/quantization",
            "torchao/prototype/hqq",
            "torchao/prototype/quantized_training/int8_mm.py",
            "torchao/prototype/fp8_sdpa_inference",
            "torchao/prototype/moe_training/kernels",
            "torchao/utils.py",
        ),
        (),
        (
            "torchao",
            "torchao.kernel",
            "torchao.prototype",
            "torchao.prototype.attention",
            "torchao.prototype.attention.quantization",
            "torchao.prototype.hqq",
            "torchao.prototype.quantized_training",
            "torchao.prototype.fp8_sdpa_inference",
            "torchao.prototype.moe_training",
            "torchao.prototype.moe_training.kernels",
        ),
    ),
    Package(
        "unsloth",
        "2026.10.9",
        "feb40b99bc4f8c543a36cbd0fe6e1410d6e4ac16bd4d0c731f607adce3d63bb0",
        ("unsloth/kernels",),
        (),
        ("unsloth", "unsloth.kernels"),
    ),
    # What those import.
    EINOPS,
    Package(
        "sqlalchemy",
        "2.0.48",
        "a66fe406437dd65cacd96a72689a3aaaecaebbcd62d81c5ac1c0fdbeac835096",
        ("sqlalchemy",),
        (
            "sqlalchemy/testing",
            "sqlalchemy/dialects/oracle",
            "sqlalchemy/dialects/mssql",
            "sqlalchemy/dialects/mysql",
            "sqlalchemy/dialects/postgresql",
        ),
        kernels=False,
    ),
)


def kept(package: Package, path: str) -> bool:
    """Whether a file of the wheel is one that travels.

    >>> one = Package("p", "1", "", ("p/ops",), ("p/ops/old",))
    >>> [kept(one, name) for name in ("p/ops/a.py", "p/ops/a.so", "p/ops/old/a.py", "p/opsother.py")]
    [True, False, False, False]
    """

    def among(parts: Sequence[str]) -> bool:
        return any(
            path == part or path.startswith(f"{part}/") or ("*" in part and fnmatchcase(path, part))
            for part in parts
        )

    return path.endswith(package.kinds) and among(package.keep) and not among(package.drop)


def unpack(archive: Path, folder: Path) -> None:
    """The archive's files in a folder."""
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")


def enter(folder: Path) -> None:
    """Make what is in the folder importable in this process, before anything else of that name."""
    sys.path.insert(0, str(folder))
    for package in PACKAGES:
        for name in package.bare:
            # Others ask what there is by its spec.
            spec = importlib.machinery.ModuleSpec(name, None, is_package=True)
            module = importlib.util.module_from_spec(spec)
            module.__path__ = [str(folder.joinpath(*name.split(".")))]
            sys.modules[name] = module
            parent, _, child = name.rpartition(".")
            if parent:
                setattr(sys.modules[parent], child, module)
    for name in ELSEWHERE:
        sys.modules[name] = None  # type: ignore[assignment]
    os.environ["GEMS_VENDOR"] = "nvidia"
    os.environ.setdefault("FLAGGEMS_CACHE_DIR", str(folder / "flag_gems_cache"))
    os.environ["FLA_TILELANG"] = "0"
