#!/usr/bin/env bash
# Audits what ends up in bin/penstock and bin/penstock-external: the sources of modules, their licenses, and known vulnerabilities. `make audit` runs it.
# The list of vulnerabilities is on the network, or in the folder of OSV files that VULNDB names. Without one, a last line
# reports that this part was not run; everything else works offline.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
tools=$PWD/.tools/bin
programs=(./cmd/penstock ./cmd/penstock-external)

echo "modules: the sources are those of go.sum"
go mod verify

# Licenses that allow to distribute Penstock under the Apache License 2.0.
echo "licenses"
"$tools/go-licenses" check "${programs[@]}" --ignore github.com/penstock-project/penstock \
  --allowed_licenses=Apache-2.0,BSD-2-Clause,BSD-3-Clause,ISC,MIT,MPL-2.0 2> >(grep -v 'contains non-Go code\|^W' >&2)

echo "vulnerabilities (one that is only imported, and never called, is listed and no failure)"
status=0
found=$("$tools/govulncheck" -db "${VULNDB:-https://vuln.go.dev}" "${programs[@]}" 2>&1) || status=$?
if grep -q 'fetching vulnerabilities' <<<"$found"; then
  printf '%s\n' "$found" "NOT RUN: the check for vulnerabilities. The database is out of reach: name a folder of OSV files in VULNDB." >&2
  exit 0
fi
printf '%s\n' "$found"
exit "$status"
