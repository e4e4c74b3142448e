#!/usr/bin/env bash
# Runs go test with the arguments given: flags, then packages. With RERUN=1 each test that failed runs once more, alone, and a test
# that passes then is named as unstable at the end: one slow moment of a shared machine does not fail a run of an hour, and is not
# hidden either. A package that did not compile, panicked or ran out of time fails at once, and so does a test that fails twice.
#
# -count=1 runs every test. Go's test cache records the files that a test opens, and not the programs that it builds or runs: it
# answered with "ok (cached)" for tests of a penstock that no longer worked.
set -uo pipefail
log=$(mktemp); trap 'rm -f "$log"' EXIT
go test -count=1 -timeout 20m "$@" 2>&1 | tee "$log"
status=${PIPESTATUS[0]}
[ "$status" != 0 ] && [ "${RERUN:-}" = 1 ] || exit "$status"

# One line for each failed package: its name, and the names of its failed tests. No names: it cannot run again.
failures=$(awk '
  /^--- FAIL: / { tests = tests " " $3 }
  /^(panic: |fatal error: |WARNING: DATA RACE|FAIL\t.*\[build failed\]|FAIL\t.*\[setup failed\])/ { broken = 1 }
  /^ok  \t/ { tests = ""; broken = 0 }
  /^FAIL\t/ { print $2 (broken ? "" : tests); tests = ""; broken = 0 }' "$log")
[ -n "$failures" ] || exit "$status"
flags=(); for argument in "$@"; do case $argument in -*) flags+=("$argument") ;; esac; done
unstable='' failed=0
while read -r package tests; do
  if [ -z "$tests" ]; then failed=1; continue; fi
  echo "--- again: $package $tests"
  if go test ${flags[@]+"${flags[@]}"} -count=1 -timeout 20m -run "^($(tr ' ' '|' <<<"$tests"))\$" "$package"; then
    unstable+=$'\n'"    $package $tests"
  else
    failed=1
  fi
done <<<"$failures"
[ -z "$unstable" ] || printf '%s\n' "UNSTABLE: these tests failed, and passed when they ran again. Find out why:$unstable"
[ $failed = 0 ] || { echo FAIL; exit 1; }
echo "ok: all other tests passed at once"
