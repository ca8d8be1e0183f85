#!/bin/sh
# Try everything about GPUs that only a computer with one can show, and print a table.
#
#   tools/gpu_check.sh                  on a computer with a card, in a checkout with .venv; it needs no network
#   tools/gpu_check.sh --without-card   the same steps with OpenCL on the processor (Debian's pocl-opencl-icd)
#
# A project and a client run in a temporary folder. CuPy is tried if .venv has it, OpenCL if there is a C compiler.
# Exit status: 0 all that could be tried is well, 1 something is not, 2 there is nothing to try it on.
set -u
cd "$(dirname "$0")/.."
root=$(pwd)
bin=$root/.venv/bin
class_file=""
card=yes
[ "${1:-}" != --without-card ] || card=""

status=0
rows=""
row() { # row CHECK RESULT DETAIL
    rows="$rows$1|$2|$3
"
    [ "$2" != FAILED ] || status=1
    printf '%s: %s, %s\n' "$1" "$2" "$3" >&2
}
table() {
    printf '%s' "$rows" | awk -F'|' 'BEGIN { printf "\n%-28s %-8s %s\n", "check", "result", "detail" }
        { printf "%-28s %-8s %s\n", $1, $2, $3 }'
}
now() { date +%s.%N; }
since() { awk -v a="$1" -v b="$(now)" 'BEGIN { printf "%.1f", b - a }'; }
python() { "$bin/python" "$@"; }

[ -x "$bin/cobblestone" ] || {
    echo "There is no .venv in $root with cobblestone in it: run \`tools/setup.sh demo\` first (that needs the network)." >&2
    exit 2
}

# ------------------------------------------------------------------------------------------------ which cards

began=$(now)
found=$(python -m cobblestone.client.conditions.gpus) || found="[]"
described=$(printf '%s' "$found" | python -c '
import json, sys
for each in json.load(sys.stdin):
    print("%(count)d x %(name)s" % each, "%.0f GB, %.1f TFLOPS peak" % (each["ram"] / 1e9, each["peak_flops"] / 1e12), sep=", ")')
kind=$(printf '%s' "$found" | python -c '
import json, sys
print(next((each["type"] for each in json.load(sys.stdin)), ""))')
case $kind in
NVIDIA) maker=nvidia ;;
ATI) maker=amd ;;
intel_gpu) maker=intel ;;
*) maker="" ;;
esac
if [ -n "$card" ] && [ -z "$maker" ]; then
    echo "No card was found, so nothing was checked." >&2
    [ -e /dev/nvidiactl ] || echo "- NVIDIA: no driver (/dev/nvidiactl is missing)" >&2
    [ -e /dev/dri/renderD128 ] || echo "- AMD, Intel: no driver (/dev/dri/renderD128 is missing)" >&2
    python -c 'import ctypes; ctypes.CDLL("libnvidia-ml.so.1")' 2>/dev/null || echo "- NVIDIA: the driver's library libnvidia-ml.so.1 is missing" >&2
    python -c 'import ctypes; ctypes.CDLL("libOpenCL.so.1")' 2>/dev/null ||
        echo "- OpenCL: the loader libOpenCL.so.1 is missing (Debian: ocl-icd-libopencl1)" >&2
    echo "The same steps without a card: tools/gpu_check.sh --without-card" >&2
    exit 2
fi
[ -z "$card" ] || row "detection" ok "$described; $(since "$began") s"

# ------------------------------------------------------------------------------------------------ project and client

work=$(mktemp -d /tmp/gpu_check.XXXXXX) || exit 2
chmod 755 "$work"
server="" client=""
cleanup() {
    [ -z "$client" ] || { kill "$client" && wait "$client"; } 2>/dev/null
    [ -z "$server" ] || { kill "$server" && wait "$server"; } 2>/dev/null
    rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM HUP

export COBBLESTONE_PROJECT="$work/project"
project() { "$bin/cobblestone" "$@"; }
of_client() { "$bin/cobblestone" client "$@" --dir "$work/client"; }
give_up() {
    echo "$1" >&2
    tail -n 20 "$work"/*.log >&2
    exit 1
}
project project create "$work/project" >/dev/null || exit 1
if [ -z "$card" ]; then
    class_file="$work/project/plan_classes.toml"
    printf '[pocl]\ngpu_type = "pocl"\n[pocl-half]\ngpu_type = "pocl"\nngpus = 0.5\n' >"$class_file"
fi
"$bin/cobblestone" run "$work/project" >"$work/server.log" 2>&1 & # no function: its shell alone would be killed
server=$!
mkdir -p "$work/client"
declared=""
[ -n "$card" ] || declared="<coproc><type>pocl</type><count>1</count><peak_flops>1e11</peak_flops></coproc>"
cat >"$work/client/cc_config.xml" <<END
<cc_config><options>
<skip_cpu_benchmarks>1</skip_cpu_benchmarks><report_results_immediately>1</report_results_immediately>
<fetch_on_update>1</fetch_on_update><ncpus>4</ncpus>$declared
</options></cc_config>
END
cat >"$work/client/global_prefs_override.xml" <<END
<global_preferences>
<run_if_user_active>1</run_if_user_active><run_gpu_if_user_active>1</run_gpu_if_user_active>
<suspend_cpu_usage>0</suspend_cpu_usage><niu_suspend_cpu_usage>0</niu_suspend_cpu_usage>
<work_buf_min_days>0.01</work_buf_min_days><leave_apps_in_memory>1</leave_apps_in_memory>
</global_preferences>
END
# Jobs in Python use the Python of .venv, and so its CuPy.
PATH="$bin:$PATH" "$bin/cobblestone" client run "$work/client" --gui-port 0 >"$work/client.log" 2>&1 &
client=$!

wait_for() { # wait_for SECONDS COMMAND...: until it succeeds
    end=$(($(date +%s) + $1))
    shift
    while ! "$@" >/dev/null 2>&1; do
        [ "$(date +%s)" -lt "$end" ] || return 1
        sleep 0.2
    done
}
url=$(sed -n 's/^url = "\(.*\)"/\1/p' "$work/project/cobblestone.toml")
server_answers() { python -c "import urllib.request; urllib.request.urlopen('${url}healthz')"; }
client_answers() { of_client status; }
wait_for 60 server_answers || give_up "the project does not start"
wait_for 60 client_answers || give_up "the client does not start"
key=$(project user create card@example.org Card -q) || exit 1
of_client attach "$url" --key "$key" >/dev/null || exit 1

# ------------------------------------------------------------------------------------------------ what the jobs do

example=$work/examples/gpu
mkdir -p "$work/examples"
cp -r examples/gpu examples/sunspots "$work/examples"
inputs() { # inputs FOLDER JOBS SHUFFLES
    python "$example/make_inputs.py" --folder "$work/$1" --jobs "$2" --shuffles "$3" >/dev/null
}
inputs small 1 20000
inputs long 1 200000000
inputs two 2 200000000

running() { # how many programs of jobs run; their launchers do not count
    number=0
    for process in /proc/[0-9]*; do
        case $({ tr '\0' ' ' <"$process/environ"; } 2>/dev/null) in
        *"COBBLESTONE_SLOT=$work/"*COBBLESTONE_FOLDER=* | *COBBLESTONE_FOLDER=*"COBBLESTONE_SLOT=$work/"*) number=$((number + 1)) ;;
        esac
    done
    echo "$number"
}
at_least() { [ "$(running)" -ge "$1" ]; }
none_runs() { [ "$(running)" -eq 0 ]; }
has_progress() {
    of_client tasks --json | python -c '
import json, sys
sys.exit(not any(each["fraction_done"] > 0 for each in json.load(sys.stdin)))'
}
asks() { of_client update "$url" >/dev/null 2>&1; }
computes() { asks; at_least "$1"; }
ends() { # ends BATCH: asking for work until it has its answer
    asks
    project batch status "$1" --json | python -c 'import json, sys; sys.exit(json.load(sys.stdin)["running"])'
}
agree() { # agree FILE FILE: to four digits
    python -c '
import sys
first, second = ([float(line.split()[-1]) for line in open(name)] for name in sys.argv[1:])
sys.exit(not all(abs(a - b) <= 1e-4 * abs(a) for a, b in zip(first, second, strict=True)))' "$1" "$2"
}
submit() { project submit "$1" "$work/$2"/* -q; }

check_answer() { # check_answer APP
    began=$(now)
    batch=$(submit "$1" small)
    if wait_for 180 ends "$batch" && project batch results "$batch" --to "$work/$1" >/dev/null; then
        took=$(since "$began")
        if agree "$work/$1/shuffles-0/output" "$work/expected.txt"; then
            row "$1: answer" ok "as the processor's, to four digits; $took s from submission"
        else
            row "$1: answer" FAILED "another than the processor's"
        fi
    else
        row "$1: answer" FAILED "none; $(project batch results "$batch" 2>&1 | tail -n 1)"
    fi
}
check_suspension() { # check_suspension APP
    batch=$(submit "$1" long)
    if wait_for 120 computes 1 && wait_for 120 has_progress; then
        before=$(used_memory)
        began=$(now)
        of_client mode gpu never >/dev/null
        wait_for 30 none_runs
        took=$(since "$began")
        result=ok
        awk -v took="$took" 'BEGIN { exit took > 5.5 }' || result=FAILED
        row "$1: leaves the card" "$result" "$took s after GPU computing was suspended; memory $before -> $(used_memory)"
        of_client mode gpu always >/dev/null
        if wait_for 30 at_least 1 && wait_for 60 has_progress; then
            row "$1: goes on" ok "from its checkpoint"
        else
            row "$1: goes on" FAILED "it did not start again"
        fi
    else
        row "$1: leaves the card" FAILED "the job did not begin"
    fi
    project batch cancel "$batch" >/dev/null
    asks
    wait_for 60 none_runs
}
used_memory() {
    if [ "$kind" = NVIDIA ]; then
        nvidia-smi --query-gpu=memory.used --format=csv,noheader 2>/dev/null | head -n 1
    else
        echo "?"
    fi
}
check_two() { # check_two APP
    batch=$(submit "$1" two)
    if wait_for 120 computes 2; then
        row "$1: two at once" ok "each has half of the card"
    else
        row "$1: two at once" FAILED "$(running) ran"
    fi
    project batch cancel "$batch" >/dev/null
    asks
    wait_for 60 none_runs
}

# A new computer holds one task until one is right, and two at once are to be seen.
first_tasks() { project app dispatch "$1" --max-on-host 4 >/dev/null; }

# ------------------------------------------------------------------------------------------------ OpenCL

if ! command -v cc >/dev/null; then
    row "opencl" skipped "there is no C compiler (cc)"
elif ! (cd "$example" && make -s >"$work/make.log" 2>&1); then
    row "opencl" skipped "it does not compile: $(tail -n 1 "$work/make.log")"
else
    "$example/spectrum_cpu" "$work/small/shuffles-0.txt" "$work/expected.txt"
    whole="--plan-class pocl" half="--plan-class pocl-half"
    [ -z "$card" ] || whole="--gpu $maker" half="--gpu $maker --gpu-share 0.5"
    for each in "opencl:$whole" "opencl-half:$half"; do
        # shellcheck disable=SC2086  # options
        project app create "${each%%:*}" --files "$example/spectrum_opencl" "$example/spectrum.cl" ${each#*:} \
            --command "spectrum_opencl {input} {output} {gpu_type} {gpu}" -q >/dev/null || exit 1
    done
    check_answer opencl
    check_suspension opencl
    check_answer opencl-half
    check_two opencl-half
fi

# ------------------------------------------------------------------------------------------------ CuPy

if [ "$kind" != NVIDIA ]; then
    row "cupy" skipped "there is no NVIDIA card"
elif ! python -c 'import cupy' 2>/dev/null; then
    row "cupy" skipped "CuPy is not in .venv: .venv/bin/pip install cupy-cuda12x, or that of your CUDA"
else
    [ -e "$work/expected.txt" ] || (cd "$example" && python -c '
import sys, spectrum
spectrum.device = lambda: spectrum.numpy
spectrum.main(sys.argv[1], sys.argv[2])' "$work/small/shuffles-0.txt" "$work/expected.txt")
    project app create cupy --python "$example/spectrum.py" --installed numpy --installed cupy --gpu nvidia -q >/dev/null || exit 1
    check_answer cupy
    check_suspension cupy
fi

table
exit $status
