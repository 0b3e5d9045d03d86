# Runs steps of gpu_decisions.sh on all GPUs of a machine at once, each with its share of the cases and of the cores,
# from the root of the repository:
#   bash bench/gpu_cards.sh FOLDER STEP[:SECONDS]...
# for example compile foreign kernels foreign-after kernels-after rotary:150. Results go to FOLDER/STEP.CARD, from which
# `python -m bench.foreign --join` and `python -m bench.kernels --join` make one report. FOLDER/steps has the exit status
# and the seconds of each step; FOLDER/done is there when all have ended. Only the last GPU does `rotary`.
set -u
output=$1
shift
python=${PYTHON:-python3}
work=${TRITON_LINEAR_WORK:-/tmp/triton-linear-decisions}
cards=$(nvidia-smi -L 2> /dev/null | wc -l)
cards=$((cards > 0 ? cards : 1))
mapfile -t cores < <("$python" -c 'import os; print(*sorted(os.sched_getaffinity(0)), sep="\n")')
each=$((${#cores[@]} / cards))
mkdir -p "$output"

share() { # BENCH CARD: an expression for the cases of that GPU, every so manieth
    "$python" -m "bench.$1" --list | "$python" -c '
import re, sys
card, cards = map(int, sys.argv[1:])
names = [re.split(r"\s{2,}", line.strip())[0] for line in sys.stdin]
print("^(" + "|".join(map(re.escape, names[card::cards])) + ")$")' "$2" "$cards"
}

on_card() { # CARD STEP[:SECONDS]...
    local card=$1 step seconds begun foreign kernels ONLY
    shift
    foreign=$(share foreign "$card") kernels=$(share kernels "$card")
    for step in "$@"; do
        seconds=${step#*:} step=${step%:*}
        [ "$seconds" = "$step" ] && seconds=540
        case $step in
            rotary) [ "$card" = $((cards - 1)) ] || continue && ONLY="" ;;
            kernels*) ONLY=$kernels ;;
            *) ONLY=$foreign ;;
        esac
        begun=$SECONDS
        ONLY=$ONLY CUDA_VISIBLE_DEVICES=$card TRITON_LINEAR_WORK=$work/$card \
            taskset -c "$(IFS=, && echo "${cores[*]:$((card * each)):each}")" \
            bash bench/gpu_decisions.sh "$step" "$output/$step.$card" "$seconds" > "$output/$step.$card.log" 2>&1
        echo "$step.$card: status $?, $((SECONDS - begun)) s" >> "$output/steps"
    done
}

for card in $(seq 0 $((cards - 1))); do on_card "$card" "$@" & done
wait
touch "$output/done"
