#!/usr/bin/env bash
# Runs go build with these arguments, and prints what is compiled and how long it takes, then a line of progress: how many packages
# are compiled, of how many at most. What is compiled already is not counted, so a second build prints nothing.
set -euo pipefail
same= # the terminal's line is written again; a log gets one for every 100 packages
[ ! -t 2 ] || same=1
total=
if [ ! -e bin/penstock ]; then
  packages=()
  for argument in "$@"; do
    case $argument in ./*) packages+=("$argument") ;; esac
  done
  echo "compiling ${packages[*]#./cmd/} with all modules: some minutes the first time" >&2
  total=$(go list -deps "${packages[@]}" 2>/dev/null | wc -l)
fi
shown= compiled=0 modules=0
show() {
  if [ -n "$same" ]; then printf '\r%-70s' "$1" >&2; shown=1; else printf '%s\n' "$1" >&2; fi
}
# The shell reads line by line: mawk would wait for a whole block, and print nothing for minutes.
go build -v "$@" 2>&1 | {
  while IFS= read -r line; do
    case $line in
      'go: downloading '*)
        modules=$((modules + 1))
        if [ -n "$same" ] || [ $((modules % 50)) = 1 ]; then show "downloading modules: $(cut -d' ' -f3 <<<"$line")"; fi ;;
      '' | *[!A-Za-z0-9._~/-]*)
        [ -z "$shown" ] || echo >&2
        shown=
        printf '%s\n' "$line" >&2 ;;
      *)
        compiled=$((compiled + 1))
        if [ -n "$same" ] || [ $((compiled % 100)) = 0 ]; then
          show "compiling packages: $compiled${total:+ of at most $((total))}"
        fi ;;
    esac
  done
  [ -z "$shown" ] || echo >&2
}
