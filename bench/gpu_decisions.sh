# Measures what `triton-linear tune` decides, one step a call, on a machine with a GPU, from the root of the repository:
#   bash bench/gpu_decisions.sh STEP FOLDER [SECONDS]
# Results go to FOLDER, with the file of decisions. What steps have for each other is kept in $TRITON_LINEAR_WORK (default
# /tmp/triton-linear-decisions). A step that is cut off at SECONDS goes on where it was when it is called again, but for
# `foreign` and `kernels`, which keep what was decided and begin anew. Cases are all, or those whose names match $ONLY.
#   compile         kernels of other packages for stock Triton, on all cores
#   foreign         tune them
#   foreign-after   stock Triton, ours, what was decided, and exact, side by side
#   foreign-plain   stock Triton and ours side by side, without decisions; $BESIDE names variants beside these
#   kernels         tune the kernels of bench.kernels, in the configurations of an earlier kernels.json ($CONFIGS)
#   kernels-after   stock Triton, ours and what was decided, side by side
#   rotary          RMS norm with rotary embedding through torch.compile, at every configuration that Inductor tries
set -u
step=$1 output=$2 seconds=${3:-540}
work=${TRITON_LINEAR_WORK:-/tmp/triton-linear-decisions}
configs=${CONFIGS:-bench/results/3.9.0/kernels.json}
python=${PYTHON:-python3}
only=(${ONLY:+--only "$ONLY"})
cores=$(nproc)
compilers=$((cores > 3 ? cores - 2 : cores))
export TRITON_HOME="$work/home" TRITON_CACHE_DIR="$work/cache"
mkdir -p "$output" "$TRITON_HOME" "$TRITON_CACHE_DIR"

tune() { # MODULE [ARGUMENT ...]
    timeout -s INT -k 20 "$seconds" "$python" -m triton_linear.tools.cli tune --seconds 0.1 -m "$@"
}

case $step in
    compile)
        "$python" -m bench.foreign --compile-only --control --cache "$TRITON_CACHE_DIR" --jobs "$cores" --budget "$seconds" \
            "${only[@]}" --output "$output"
        ;;
    foreign) tune bench.foreign.program "${only[@]}" ;;
    foreign-after)
        "$python" -m bench.foreign --cache "$TRITON_CACHE_DIR" --jobs "$cores" --beside decided,exact --budget "$seconds" \
            "${only[@]}" --output "$output"
        ;;
    foreign-plain)
        "$python" -m bench.foreign --cache "$TRITON_CACHE_DIR" --jobs "$compilers" ${BESIDE:+--beside "$BESIDE"} --budget "$seconds" \
            "${only[@]}" --output "$output"
        ;;
    kernels) tune bench.kernels.program --configs "$configs" "${only[@]}" ;;
    kernels-after)
        "$python" -m bench.kernels --configs "$configs" --modes stock,ours,decided --turns 25 --budget "$seconds" \
            "${only[@]}" --output "$output"
        ;;
    rotary)
        "$python" -m bench.configurations --only '^rms_norm_rotary$' --budget "$seconds" --output "$output"
        ;;
    *) sed -n '2,12p' "$0" && exit 2 ;;
esac
status=$?
cp "$TRITON_HOME"/.triton/triton-linear/decisions.jsonl "$output" 2>/dev/null
exit $status
