#!/bin/sh
# Builds the simulator in C: sh examples/serve/build_simulator.sh [FOLDER]. Says so, and does nothing, without a compiler.
set -eu
here=$(dirname "$0")
out=${1:-.}
compiler=${CC:-$(command -v gcc || command -v cc || command -v clang || true)}
if [ -z "$compiler" ]; then
    echo "skipped: there is no C compiler (gcc, cc or clang)"
    exit 0
fi
mkdir -p "$out"
"$compiler" -std=gnu11 -O2 -Wall -Wextra -Werror -o "$out/simulator" "$here/simulator.c" -lm
echo "built $out/simulator"
