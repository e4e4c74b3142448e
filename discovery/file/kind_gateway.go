package file

import "github.com/penstock-project/penstock/discovery/store"

func gatewayKind() *kind {
	return &kind{
		table:    store.Gateways,
		versions: []version{{"gateway.networking.k8s.io/v1", ourClass}, {"gateway.networking.k8s.io/v1beta1", ourClass}},
		crd:      "gateways",
	}
}

// ourClass: a Gateway in a folder that Penstock reads is meant for it; no class need be named.
func ourClass(d *draft) {
	if spec, ok := d.obj["spec"].(map[string]any); ok && spec["gatewayClassName"] == nil {
		spec["gatewayClassName"] = "penstock"
	}
}
