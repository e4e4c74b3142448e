#!/usr/bin/env bash
# Runs go build with these arguments, and prints a line of progress: how many packages are compiled, of how many at most. What is
# compiled already is not counted, so a second build prints nothing.
set -euo pipefail
total=
if [ ! -e bin/penstock ]; then
  packages=()
  for argument in "$@"; do
    case $argument in ./*) packages+=("$argument") ;; esac
  done
  total=$(go list -deps "${packages[@]}" 2>/dev/null | wc -l)
fi
same= # the terminal's line is written again; a log gets one for every 100 packages
[ ! -t 2 ] || same=1
go build -v "$@" 2>&1 | awk -v total="$total" -v same="$same" '
  function show(text) {
    if (same) { printf "\r%-70s", text; open = 1 } else print text
    fflush()
  }
  /^go: downloading / { if (same || ++modules % 50 == 1) show("downloading modules: " $3); next }
  /^[A-Za-z0-9._~\/-]+$/ {
    compiled++
    if (same || compiled % 100 == 0) show("compiling packages: " compiled (total ? " of at most " total + 0 : ""))
    next
  }
  { if (open) { print ""; open = 0 } print; fflush() }
  END { if (open) print "" }' >&2
