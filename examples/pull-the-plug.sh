#!/bin/sh
# A workflow is started, its process is killed in the middle, and the same command goes on where it was.
#
#   cargo build --release && examples/pull-the-plug.sh
set -eu
here=$(dirname "$0")
lope=${LOPE:-$here/../target/release/lope}
LOPE_HOME=$(mktemp -d)
export LOPE_HOME
trap 'rm -rf "$LOPE_HOME"' EXIT

say() { printf '\n\033[1m%s\033[0m\n' "$1"; }

say '$ lope run examples/interrupted.yaml --key demo      (three steps; the second takes a few seconds)'
"$lope" run "$here/interrupted.yaml" --key demo &
pid=$!
until "$lope" runs show demo --json 2>/dev/null | grep -q '"path":"second"'; do sleep 0.2; done

say "\$ kill -9 $pid                                      (no warning, no clean-up)"
kill -9 "$pid"
wait "$pid" 2>/dev/null || true

say '$ lope run examples/interrupted.yaml --key demo      (goes on where it was; the first step does not run again)'
"$lope" run "$here/interrupted.yaml" --key demo

say '$ lope runs journal demo                             (what happened, one row an event)'
"$lope" runs journal demo

say '$ lope store check'
"$lope" store check
