#!/bin/sh
# Build the client's benchmark module from its C sources.  Needs the package ziglang: PYTHON=/path/to/python3-with-ziglang.
set -eu
cd "$(dirname "$0")/../src/cobblestone/client/benchmarks"
exec "${PYTHON:-python3}" -m ziglang cc -target wasm32-wasi -mexec-model=reactor -O2 -s -o speed.wasm whetstone.c dhrystone.c
