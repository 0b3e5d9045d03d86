# Sourced on a GPU machine that has Triton, PyTorch and numpy but neither a package index nor MLIR's bindings:
#   source bench/gpu_setup.sh [BUNDLE...] && python3 bench/gpu_check.py
# A BUNDLE is a .tar.xz of packages for its Python: `mlir` and `llvm` (default .gpu/mlir.tar.xz), and `rich` where that
# is missing. They are unpacked in a folder of their own; PYTHONPATH has that, and src/ for this repository's own.
_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
_site=$(mktemp -d)
for _bundle in "${@:-$_root/.gpu/mlir.tar.xz}"; do tar -xJf "$_bundle" -C "$_site" || return 1; done
export PYTHONPATH="$_root/src:$_site${PYTHONPATH:+:$PYTHONPATH}"
python3 - <<'PYTHON' || return 1
import mlir.ir, triton, triton_linear.dialect
print("triton", triton.__version__, "with", triton_linear.__file__, "and", mlir.ir.__file__)
PYTHON
