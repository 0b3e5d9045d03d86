# Sourced on a GPU machine that has PyTorch and numpy but neither a package index nor MLIR's bindings, from the root of the
# repository; the pieces of bench/gpu_pack.sh are in FOLDER (default .gpu), and unpacked there once:
#   source bench/gpu_setup.sh [FOLDER [TRITON_VERSION]] && python3 bench/gpu_check.py
# Then PYTHONPATH has src/ for this repository's own package, and Triton's assembler is the one of its wheel.
_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
_packed=${1:-$_root/.gpu}
_version=${2:-3.9.0}
if [ ! -d "$_packed/base" ]; then
    cat "$_packed"/pack.?? | tar -xf - -C "$_packed" || return 1
    for _archive in "$_packed"/base.tar.xz "$_packed"/triton-*.tar.xz; do tar -xJf "$_archive" -C "$_packed" & done
    wait
fi
export PYTHONPATH="$_root/src:$_root:$_packed/triton-$_version:$_packed/base${PYTHONPATH:+:$PYTHONPATH}"
export TRITON_PTXAS_PATH="$_packed/base/bin/ptxas-$_version"
export TRITON_PTXAS_BLACKWELL_PATH="$TRITON_PTXAS_PATH"
python3 - <<'PYTHON' || return 1
import mlir.ir, triton, triton_linear.dialect
print("triton", triton.__version__, "with", triton_linear.__file__, "and", mlir.ir.__file__)
PYTHON
