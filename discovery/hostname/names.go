package hostname

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
)

// usingTables lists the tables that namesInUse reads.
func usingTables() []string {
	return []string{store.ModelServers.Kind(), store.InferencePoolImports.Kind(), store.Services.Kind()}
}

// namesInUse returns the host names that objects use as addresses, in lower case, sorted, without duplicates.
func namesInUse(r store.Reader) []string {
	var names []string
	add := func(address string) {
		if _, err := netip.ParseAddr(address); err != nil && address != "" {
			names = append(names, strings.ToLower(address))
		}
	}
	for _, m := range store.ModelServers.All(r) {
		for _, s := range m.Spec.Servers {
			add(s.Address)
		}
	}
	for _, imp := range store.InferencePoolImports.All(r) {
		for _, c := range imp.Status.Clusters {
			if c.EndpointPicker != nil {
				addServices(c.EndpointPicker.Service, add)
			}
			for _, p := range c.Parents {
				addServices(p.Service, add)
			}
		}
	}
	for _, s := range store.Services.All(r) {
		if s.Spec.Type == corev1.ServiceTypeExternalName {
			add(s.Spec.ExternalName)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func addServices(services []inferenceapi.ServiceImport, add func(string)) {
	for _, s := range services {
		for _, a := range s.Addresses {
			add(a)
		}
	}
}
