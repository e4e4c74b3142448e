#!/bin/bash
# install.sh FOLDER: installs SGLang's router and smg into a Python environment of their own, and LiteLLM's proxy into another
# one, once, and prints what it does. The hashes of these three are checked. Needs python3 (3.8 or newer for the routers, 3.10
# for LiteLLM; the dependencies are for 3.11) with pip.
set -euo pipefail
[ $# = 1 ] || { sed -n 2,4p "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd); dir=$1

# environment FOLDER MB PROGRAMS DEPENDENCIES: makes one environment, and returns 1 if it is there already.
environment() {
  local wanted; wanted=$(cat "$here/$3" "$here/$4")
  [ "$(cat "$1/installed.txt" 2>/dev/null)" != "$wanted" ] || return 1
  echo "installing $(sed -n 's/^\([a-z-]*==[0-9.]*\).*/\1/p' "$here/$3" | paste -sd ' ' -) into $1 (about $2 MB, once)" >&2
  rm -rf "$1"; python3 -m venv "$1"
  local pip=("$1/bin/python" -m pip install -q --disable-pip-version-check --no-deps --only-binary :all:)
  "${pip[@]}" --require-hashes -r "$here/$3"
  "${pip[@]}" -r "$here/$4"
}
# complete FOLDER PROGRAMS DEPENDENCIES: records what an environment has.
complete() { cat "$here/$2" "$here/$3" > "$1/installed.txt"; }

mkdir -p "$dir"
if environment "$dir/routers" 230 routers.txt dependencies.txt; then
  for module in sglang_router smg; do # both have a program smg: modules are started by name
    "$dir/routers/bin/python" -m $module.launch_router --help > /dev/null || { echo "$module does not start" >&2; exit 1; }
  done
  complete "$dir/routers" routers.txt dependencies.txt
fi
if environment "$dir/litellm" 750 litellm.txt litellm-dependencies.txt; then
  LITELLM_LOCAL_MODEL_COST_MAP=True "$dir/litellm/bin/litellm" --help > /dev/null || { echo "LiteLLM does not start" >&2; exit 1; }
  complete "$dir/litellm" litellm.txt litellm-dependencies.txt
fi
