#!/bin/sh
# Pin everything again: requirements/core.txt (server and client, to run), requirements/lab.txt (with a statistics site, too) and
# requirements/dev.txt (to test), with hashes for every platform and Python, and without the address of any index.  Usage: make lock [LOCK_ARGS=--upgrade]
set -eu
cd "$(dirname "$0")/.."

uv=uv
[ -x .venv/bin/uv ] && uv=.venv/bin/uv

compile() { # compile OUTPUT OPTION...
    output=$1
    shift
    "$uv" pip compile pyproject.toml --quiet --universal --python-version 3.11 --generate-hashes --no-header \
        --no-emit-index-url --no-emit-find-links --no-config --group build --output-file "$output" "$@" >/dev/null
    echo "$output: $(grep -c '==' "$output") pins"
}

# The development set comes first, and the others take their versions from it: one .venv serves both.
compile requirements/dev.txt --group dev --extra postgres --extra lab --extra sweep --extra docs --extra wasm --extra client --extra tui --extra s3 "$@"
grep -v -e '--hash' requirements/dev.txt | sed -e 's/ \\$//' >requirements/.constraints.txt
trap 'rm -f requirements/.constraints.txt' EXIT
compile requirements/core.txt --extra client --constraint requirements/.constraints.txt
compile requirements/lab.txt --extra client --extra lab --constraint requirements/.constraints.txt
for file in requirements/core.txt requirements/lab.txt requirements/dev.txt; do
    sed -i -e '/# *-c requirements\/.constraints.txt$/d' -e 's/, *-c requirements\/.constraints.txt//' "$file"
    sed -i -e '1i # Made by `make lock`; do not edit.' -e '/^# Made by/d' "$file"
done
