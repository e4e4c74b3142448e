#!/bin/sh
# Installs a release of Penstock for this user, without root:
#
#   curl -fsSL https://github.com/penstock-project/penstock/releases/download/v0.1.0/install.sh | sh
#
# It fetches the archive of this platform and SHA256SUMS, compares the checksum, unpacks into PREFIX/share/penstock/VERSION and
# links PREFIX/bin/penstock. Variables: PREFIX (default: ~/.local), PENSTOCK_VERSION, PENSTOCK_URL (folder with the files of the
# release), PENSTOCK_KEY (public key: cosign must be there then, and the signature of SHA256SUMS must be valid).
set -eu

version=${PENSTOCK_VERSION:-0.1.0}
url=${PENSTOCK_URL:-https://github.com/penstock-project/penstock/releases/download/v$version}
prefix=${PREFIX:-$HOME/.local}

die() { echo "install.sh: $*" >&2; exit 1; }

fetch() {
  if command -v curl >/dev/null; then curl -fsSL --connect-timeout 30 --speed-limit 1 --speed-time 30 -o "$1" "$url/$1" || die "$url/$1 was not fetched"
  elif command -v wget >/dev/null; then wget -q -T 30 -t 2 -O "$1" "$url/$1" || die "$url/$1 was not fetched"
  else die "curl or wget is needed"
  fi
}

checksum() {
  if command -v sha256sum >/dev/null; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d' ' -f1
}

case ${1:-} in
'') ;;
*) die "it has no arguments; the variables are PREFIX, PENSTOCK_VERSION, PENSTOCK_URL and PENSTOCK_KEY. To remove Penstock: rm -r PREFIX/bin/penstock PREFIX/share/penstock" ;;
esac

# cleanup puts back what was installed, unless the new one is in its place.
cleanup() {
  cd "$share"
  [ -e "$share/$version" ] || [ ! -e "$work/old" ] || mv "$work/old" "$share/$version"
  rm -rf "$work"
}

main() {
  case $(uname -s) in
  Linux) os=linux ;;
  Darwin) os=darwin ;;
  *) die "no archive for $(uname -s): build from source" ;;
  esac
  case $(uname -m) in
  x86_64 | amd64) arch=amd64 ;;
  aarch64 | arm64) arch=arm64 ;;
  *) die "no archive for $(uname -m): build from source" ;;
  esac
  name=penstock-$version-$os-$arch
  case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
  key=${PENSTOCK_KEY:-}
  case $key in '' | /* | *://*) ;; *) key=$PWD/$key ;; esac
  share=$prefix/share/penstock

  mkdir -p "$share" "$prefix/bin"
  find "$share" -maxdepth 1 -name '.install.*' -mmin +60 -exec rm -rf {} + # of installations that were killed
  work=$(mktemp -d "$share/.install.XXXXXX") # beside its place, so that the move is a rename
  trap cleanup EXIT
  trap 'exit 1' HUP INT TERM
  cd "$work"
  echo "fetching $name.tar.gz" >&2
  fetch SHA256SUMS
  if [ -n "$key" ]; then
    fetch SHA256SUMS.sig
    command -v cosign >/dev/null || die "cosign is not there, and PENSTOCK_KEY needs it: nothing is installed"
    cosign verify-blob --key "$key" --signature SHA256SUMS.sig --insecure-ignore-tlog=true SHA256SUMS ||
      die "the signature of SHA256SUMS is not valid for $key: nothing is installed"
  fi
  fetch "$name.tar.gz"
  want=$(awk -v name="$name.tar.gz" '$2 == name { print $1 }' SHA256SUMS)
  [ -n "$want" ] || die "SHA256SUMS has no $name.tar.gz: nothing is installed"
  [ "$(checksum "$name.tar.gz")" = "$want" ] || die "the checksum of $name.tar.gz differs from that in SHA256SUMS: nothing is installed"

  tar -xzf "$name.tar.gz"
  [ ! -e "$share/$version" ] || mv "$share/$version" "$work/old"
  mv "$name" "$share/$version"
  ln -sf "$share/$version/penstock" "$prefix/bin/penstock"
  echo "installed $prefix/bin/penstock $version"
  [ -x "$share/$version/envoy" ] || echo "Envoy is fetched by: $prefix/bin/penstock envoy install"
  case ":$PATH:" in
  *":$prefix/bin:"*) ;;
  *) echo "add $prefix/bin to PATH" ;;
  esac
  echo "see it work: $prefix/bin/penstock demo"
}

main # at the end, so that half a download runs nothing
