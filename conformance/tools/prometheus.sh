#!/usr/bin/env bash
# Fetches prometheus and promtool, of Debian's package, into .tools/bin, for the tests of alerts and dashboards. It installs
# nothing, and does nothing if both are there.
set -euo pipefail

tools=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)/.tools/bin
[ -x "$tools/promtool" ] && [ -x "$tools/prometheus" ] && exit 0
if ! command -v apt-get >/dev/null || ! command -v dpkg-deb >/dev/null; then
  echo "prometheus: no apt-get here: put prometheus and promtool of a release of Prometheus into $tools, or set PROMETHEUS and PROMTOOL" >&2
  exit 1
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
echo "prometheus: fetching Debian's package (20 MB)" >&2
(cd "$folder" && apt-get download prometheus >/dev/null 2>&1) || {
  echo "prometheus: apt-get download prometheus fails: run apt-get update first" >&2
  exit 1
}
dpkg-deb -x "$folder"/prometheus_*.deb "$folder/root"
mkdir -p "$tools"
install -m 0755 "$folder/root/usr/bin/promtool" "$folder/root/usr/bin/prometheus" "$tools/"
