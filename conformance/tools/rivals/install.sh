#!/bin/bash
# install.sh FOLDER: installs SGLang's router and smg into a Python environment of their own, once, and prints what it does.
# The hashes in routers.txt are checked. Needs python3 (3.8 or newer for the routers; dependencies.txt is for 3.11) with pip.
set -euo pipefail
[ $# = 1 ] || { sed -n 2,3p "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd); dir=$1; wanted=$(cat "$here/routers.txt" "$here/dependencies.txt")
[ "$(cat "$dir/installed.txt" 2>/dev/null)" != "$wanted" ] || exit 0
echo "installing $(sed -n 's/^\([a-z-]*==[0-9.]*\).*/\1/p' "$here/routers.txt" | paste -sd ' ' -) into $dir (about 230 MB, once)" >&2
rm -rf "$dir"; python3 -m venv "$dir"
pip=("$dir/bin/python" -m pip install -q --disable-pip-version-check --no-deps --only-binary :all:)
"${pip[@]}" --require-hashes -r "$here/routers.txt"
"${pip[@]}" -r "$here/dependencies.txt"
for module in sglang_router smg; do # both have a program smg: modules are started by name
  "$dir/bin/python" -m $module.launch_router --help > /dev/null || { echo "$module does not start" >&2; exit 1; }
done
printf '%s\n' "$wanted" > "$dir/installed.txt"
