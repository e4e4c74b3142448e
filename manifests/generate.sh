#!/bin/sh
# Writes the generated files of this folder, crds/. Our own CRDs come from the markers on the
# types; the others come unchanged from the Gateway API (experimental channel), inference extension and MCS API releases in
# go.mod. Run by "make generate"; needs controller-gen, in CONTROLLER_GEN or .tools/bin.
set -eu
cd "$(dirname "$0")/.."
gen=${CONTROLLER_GEN:-.tools/bin/controller-gen}
if ! command -v "$gen" >/dev/null; then
  echo "manifests/generate.sh: no controller-gen; go install sigs.k8s.io/controller-tools/cmd/controller-gen@v0.20.1, or set CONTROLLER_GEN" >&2
  exit 1
fi

out=manifests/crds
rm -rf "$out"
mkdir -p "$out"
"$gen" crd paths=./manifests/v1alpha1/... paths=./manifests/inferenceapi/... paths=./manifests/about/... output:crd:dir="$out"
# controller-gen supports one version per package. InferencePoolImport is v1alpha1, by the package's marker;
# InferenceModel was last published as v1alpha2.
models=$out/inference.networking.x-k8s.io_inferencemodels.yaml
sed 's/^\( *\(- \)\{0,1\}name: \)v1alpha1$/\1v1alpha2/' "$models" >"$models.tmp"
mv "$models.tmp" "$models"

# A selector's type is Kubernetes' own, so markers cannot allow null below it. An API server would drop such a null, and
# the policy would select more (v1alpha1/accesspolicy_null.go).
for policies in "$out/penstock.dev_accesspolicies.yaml" "$out/penstock.dev_modeldeployments.yaml"; do
awk '/^ *(matchExpressions|matchLabels):$/ { field = $0; sub(/[^ ].*/, "", field); inside = 1 }
  inside && $0 == field "  additionalProperties:" { print; getline; sub(/type: string/, "nullable: true"); print; sub(/nullable: true/, "type: string") }
  inside && ($0 == field "  type: array" || $0 == field "  type: object") { print field "  nullable: true"; inside = 0 }
  { print }' "$policies" >"$policies.tmp"
mv "$policies.tmp" "$policies"
done

gateway=$(go list -m -f '{{.Dir}}' sigs.k8s.io/gateway-api)/config/crd/experimental
for plural in gatewayclasses gateways listenersets httproutes grpcroutes tlsroutes tcproutes udproutes referencegrants backendtlspolicies; do
  cp "$gateway/gateway.networking.k8s.io_$plural.yaml" "$out/"
done
inference=$(go list -m -f '{{.Dir}}' sigs.k8s.io/gateway-api-inference-extension)/config/crd/bases
cp "$inference/inference.networking.k8s.io_inferencepools.yaml" "$out/"
mcs=$(go list -m -f '{{.Dir}}' sigs.k8s.io/mcs-api)/config/crd
cp "$mcs/multicluster.x-k8s.io_serviceimports.yaml" "$out/"
chmod 644 "$out"/*.yaml

# The chart contains the kinds that no other project installs.
chart=manifests/charts/penstock/crds
mkdir -p "$chart"
rm -f "$chart"/*.yaml
cp "$out"/penstock.dev_*.yaml "$out"/inference.networking.x-k8s.io_inferencepoolimports.yaml "$chart/"
