"""Configuration of the lit tests: run them with `lit test/lit` or by CMake's target `check-triton-linear`."""

import os
import shutil
import sys

import lit.formats

# lit executes this file with these two names defined.
config = globals()["config"]
lit_config = globals()["lit_config"]

config.name = "triton-linear"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".ttgir"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(os.path.abspath(__file__))
config.test_exec_root = os.path.join(
    getattr(config, "triton_linear_obj_root", os.path.join(config.test_source_root, "..", "..", "build")),
    "test",
    "lit",
)

# The tools are those of the environment that runs lit, unless the site configuration names another. They run
# the package that this environment runs, which PYTHONPATH may name.
tools_dir = getattr(config, "triton_linear_tools_dir", os.path.dirname(sys.executable))
config.environment["PATH"] = os.pathsep.join((tools_dir, config.environment.get("PATH", "")))
if "PYTHONPATH" in os.environ:
    config.environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
# The cache in the home directory may hold kernels of another checkout, with its paths.
config.environment["TRITON_CACHE_DIR"] = os.path.join(config.test_exec_root, "triton-cache")
# Triton 3.9 warns in every process that does not say what it wants.
config.environment["TRITON_DEFAULT_FP_FUSION"] = "1"
# Each run iterates over sets in the same order.
config.environment["PYTHONHASHSEED"] = "0"
for tool in ("triton-linear-opt", "triton-linear", "filecheck"):
    if shutil.which(tool, path=config.environment["PATH"]) is None:
        lit_config.fatal(f"lit.cfg.py: tool '{tool}' is not on PATH; install the project with '.[test]' first")

# They are forked from one process that has imported them; with `--param cold=1` each starts by itself.
if "cold" not in lit_config.params:
    sys.path.insert(0, config.test_source_root)
    import warm

    python = os.path.join(tools_dir, os.path.basename(sys.executable))
    if os.path.exists(python):
        path = config.environment["PATH"]
        config.environment["PATH"] = os.pathsep.join((warm.start(python, path), path))

# FileCheck is the Python package's command; `not` is lit's own.
config.substitutions.append((r"\bFileCheck\b", "filecheck"))
