#!/bin/sh
# Installs a release of Penstock for this user, without root:
#
#   curl -fsSL https://github.com/penstock-project/penstock/releases/download/v0.1.0/install.sh | sh
#
# It fetches the archive of this platform and SHA256SUMS, compares the checksum, unpacks into PREFIX/share/penstock/VERSION and
# links PREFIX/bin/penstock. Where cosign is there, it verifies first that the release workflow of this repository has signed
# SHA256SUMS. Variables: PREFIX (default: ~/.local), PENSTOCK_VERSION, PENSTOCK_URL (URL, or absolute path, of a folder with the
# files of the release; it may lack a signature), PENSTOCK_KEY (public key in place of the workflow's identity: cosign must be
# there then, and the signature of SHA256SUMS must be valid).
set -eu

version=${PENSTOCK_VERSION:-0.1.0}
version=${version#v}
repository=https://github.com/penstock-project/penstock
url=${PENSTOCK_URL:-$repository/releases/download/v$version}
prefix=${PREFIX:-${HOME:+$HOME/.local}}

die() { echo "install.sh: $*" >&2; exit 1; }

has() { command -v "$1" >/dev/null; }

get() {
  case $url in /*) cp "$url/$1" "$1"; return ;; esac
  if has curl; then curl -fsSL --connect-timeout 30 --speed-limit 1 --speed-time 30 -o "$1" "$url/$1"
  elif has wget; then wget -q -T 30 -t 2 -O "$1" "$url/$1"
  else die "curl or wget is needed"
  fi
}

fetch() { get "$1" || die "$url/$1 was not fetched: nothing is installed"; }

checksum() {
  if has sha256sum; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d' ' -f1
}

case ${1:-} in
'') ;;
*) die "it has no arguments; the variables are PREFIX, PENSTOCK_VERSION, PENSTOCK_URL and PENSTOCK_KEY. To remove Penstock: rm -r PREFIX/bin/penstock PREFIX/share/penstock" ;;
esac

# verify checks the signature of SHA256SUMS by the key, or else by the identity of the release's workflow.
verify() {
  if [ -n "$key" ]; then
    fetch SHA256SUMS.sig
    cosign verify-blob --key "$key" --signature SHA256SUMS.sig --insecure-ignore-tlog=true SHA256SUMS ||
      die "the signature of SHA256SUMS is not valid for $key: nothing is installed"
    return
  fi
  if ! has cosign; then
    echo "the signature is not verified: cosign is not there" >&2
  elif get SHA256SUMS.sigstore.json 2>/dev/null; then
    identity=$repository/.github/workflows/release.yml@refs/tags/v$version
    cosign verify-blob-attestation --new-bundle-format --bundle SHA256SUMS.sigstore.json --type slsaprovenance1 \
      --certificate-oidc-issuer https://token.actions.githubusercontent.com --certificate-identity "$identity" SHA256SUMS ||
      die "cosign (2.4 or newer) does not verify that $identity signed SHA256SUMS: nothing is installed"
  elif [ -n "${PENSTOCK_URL:-}" ]; then
    echo "the release is not signed: $url has no SHA256SUMS.sigstore.json" >&2
  else
    die "$url/SHA256SUMS.sigstore.json, the signature, was not fetched: nothing is installed"
  fi
}

# cleanup puts back what was installed, unless the new one is in its place.
cleanup() {
  cd /
  [ -z "$work" ] || [ -e "$share/$version" ] || [ ! -e "$work/old" ] || mv "$work/old" "$share/$version"
  rm -rf "$fetched" ${work:+"$work"}
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
  [ -n "$prefix" ] || die "HOME is not set: name the folder to install into in PREFIX"
  case $prefix in /*) ;; *) prefix=$PWD/$prefix ;; esac
  key=${PENSTOCK_KEY:-}
  case $key in '' | /* | *://*) ;; *) key=$PWD/$key ;; esac
  [ -z "$key" ] || has cosign || die "PENSTOCK_KEY needs cosign, which is not there: nothing is installed"
  share=$prefix/share/penstock

  work=
  fetched=$(mktemp -d)
  trap cleanup EXIT
  trap 'exit 1' HUP INT TERM
  cd "$fetched"
  echo "fetching $name.tar.gz" >&2
  fetch SHA256SUMS
  verify
  fetch "$name.tar.gz"
  want=$(awk -v name="$name.tar.gz" '$2 == name { print $1 }' SHA256SUMS)
  [ -n "$want" ] || die "SHA256SUMS has no $name.tar.gz: nothing is installed"
  [ "$(checksum "$name.tar.gz")" = "$want" ] || die "the checksum of $name.tar.gz differs from that in SHA256SUMS: nothing is installed"

  mkdir -p "$share" "$prefix/bin"
  find "$share" -maxdepth 1 -name '.install.*' -mmin +60 -exec rm -rf {} + # of installations that were killed
  work=$(mktemp -d "$share/.install.XXXXXX") # beside its place, so that the move is a rename
  cd "$work"
  tar -xzf "$fetched/$name.tar.gz"
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
