#!/usr/bin/env bash
# Runs every fuzz target whose name matches $FUZZ (all by default), one after the other, for $FUZZTIME each (30s by default) with
# $PARALLEL workers (1 by default). Prints one line a target. Fails if a target fails; Go leaves the input that shows it in
# testdata/fuzz of the package, where every later `go test` runs it.
set -euo pipefail
cd "$(dirname "$0")/../.."
log=$(mktemp); trap 'rm -f "$log"' EXIT
failed=0 ran=0
printf '%-45s %12s %11s  %s\n' TARGET EXECUTIONS 'NEW INPUTS' RESULT
while IFS=: read -r file line; do
  target=${line#func }
  [[ $target =~ ${FUZZ:-.} ]] || continue
  ran=$((ran + 1)) result=ok
  go test -trimpath -vet=off -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-30s}" -fuzzminimizetime 10x -parallel "${PARALLEL:-1}" \
    "./${file%/*}" >"$log" 2>&1 || result=FAILED
  # On a busy machine the end of the time itself may fail a target (golang/go#75804): no input is at fault then.
  if grep -q '^ *context deadline exceeded$' "$log" && ! grep -q 'Failing input written' "$log"; then result=ok; fi
  last=$(grep -E '^fuzz: elapsed.*execs: ' "$log" | tail -n 1 || true)
  executions=$(sed -nE 's/.*execs: ([0-9]+).*/\1/p' <<<"$last")
  new=$(sed -nE 's/.*new interesting: ([0-9]+).*/\1/p' <<<"$last")
  [ -n "$executions" ] || [ "$result" = FAILED ] || result='ok, but the time was too short for more than the seeds'
  printf '%-45s %12s %11s  %s\n' "$target" "${executions:--}" "${new:--}" "$result"
  if [ "$result" = FAILED ]; then
    failed=1
    grep -vE '^fuzz: elapsed' "$log" | cut -c1-500 | head -n 60
  fi
done < <(grep -rE -o --include='*_test.go' --exclude-dir=.tools '^func Fuzz[A-Za-z0-9_]*' . | sed 's|^\./||' | sort)
[ $ran -gt 0 ] || { echo "no fuzz target matches ${FUZZ:-.}" >&2; exit 1; }
exit $failed
