#!/usr/bin/env bash
# Packs what the benches need on a GPU machine that has PyTorch but no package index, for its CPython 3.12:
#   bench/gpu_pack.sh [TRITON_VERSION...]     writes .gpu/pack.aa, pack.ab, ... of 29 MiB, for 3.9.0 if none is named
# There, with the pieces in one folder:
#   source bench/gpu_setup.sh FOLDER 3.9.0    unpacks them, once, and sets PYTHONPATH and the assembler
# It takes about four minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."
versions=("${@:-3.9.0}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p .gpu "$work/packed"

fetch() { # FOLDER REQUIREMENT...: the wheels of that Python, unpacked
    local folder=$1 platform
    shift
    local platforms=(--platform any)
    for platform in 2_28 2_27 2_24 2_17; do platforms+=(--platform "manylinux_${platform}_x86_64"); done
    python3 -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 --implementation cp \
        "${platforms[@]}" --platform manylinux2014_x86_64 -d "$folder.wheels" "$@"
    mkdir -p "$folder"
    for wheel in "$folder".wheels/*.whl; do unzip -q -o "$wheel" -d "$folder"; done
    rm -rf "$folder.wheels"
}

pack() { # NAME: the folder of that name, stripped, as one archive
    find "$work/$1" -name '*.so*' -type f -exec strip -s {} +
    tar -C "$work" -cf - "$1" | xz -6 -T0 > "$work/packed/$1.tar.xz"
}

# What this package depends on, but for numpy, which PyTorch has; of LLVM's tools the library alone.
mapfile -t needed < <(python3 -c '
import re
text = open("pyproject.toml", encoding="utf-8").read()
listed = re.search(r"^dependencies = \[(.*?)^\]", text, re.S | re.M)[1]
print(*(name for name in re.findall(r"\"(.+?)\"", listed) if not name.startswith("numpy")), sep="\n")')
fetch "$work/base" "${needed[@]}" markdown-it-py mdurl pygments
find "$work/base/llvm" -type f ! -name 'libLLVM.so*' -delete
rm -rf "$work"/base/mlir/_mlir_libs/{include,*.a} "$work"/base/*/include
for version in "${versions[@]}"; do
    fetch "$work/triton-$version" "triton==$version"
    triton=$work/triton-$version/triton
    mkdir -p "$work/base/bin"
    for assembler in ptxas-blackwell ptxas; do # the newest one that the wheel has
        [ -e "$work/base/bin/ptxas-$version" ] || cp "$triton/backends/nvidia/bin/$assembler" "$work/base/bin/ptxas-$version"
    done
    # What only AMD's GPUs, profilers and builds need.
    rm -rf "$triton"/backends/nvidia/bin "$triton"/backends/nvidia/lib/cupti* "$triton"/backends/amd/lib/*.so* \
        "$triton"/_C/libproton* "$triton"/_C/include "$triton"/include "$triton"/instrumentation/*.so \
        "$triton"/FileCheck "$triton"/plugins
    pack "triton-$version"
done
pack base
for fetched in foreign serving; do [ ! -e ".gpu/$fetched.tar.xz" ] || cp ".gpu/$fetched.tar.xz" "$work/packed/"; done
rm -f .gpu/pack.*
tar -C "$work/packed" -cf - . | split -b 29M - .gpu/pack.
ls -l .gpu
