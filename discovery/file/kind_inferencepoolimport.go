package file

import (
	"fmt"

	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
)

// inferencePoolImportKind reads the status, which a controller writes, or the user without one.
func inferencePoolImportKind() *kind {
	return &kind{
		table:    store.InferencePoolImports,
		versions: []version{{"inference.networking.x-k8s.io/v1alpha1", proposedImport}},
		crd:      "inferencepoolimports",
		status:   true,
		check:    checkImport,
	}
}

// proposedImport accepts the form of the multi-cluster proposal's examples: an empty spec, service
// as an object, conditions with only type and status.
func proposedImport(d *draft) {
	if spec, ok := d.obj["spec"]; ok {
		if m, isMap := spec.(map[string]any); spec == nil || isMap && len(m) == 0 {
			delete(d.obj, "spec")
		}
	}
	status, _ := d.obj["status"].(map[string]any)
	completeConditions(status)
	clusters, _ := status["clusters"].([]any)
	for i := range clusters {
		cluster, _ := clusters[i].(map[string]any)
		completeConditions(cluster)
		field := at("status.clusters", i)
		if picker, ok := cluster["endpointPicker"].(map[string]any); ok {
			listOfOne(d, picker, field+".endpointPicker")
		}
		parents, _ := cluster["parents"].([]any)
		for j := range parents {
			if parent, ok := parents[j].(map[string]any); ok {
				completeConditions(parent)
				listOfOne(d, parent, at(field+".parents", j))
			}
		}
	}
}

func listOfOne(d *draft, in map[string]any, path string) {
	if service, ok := in["service"].(map[string]any); ok {
		in["service"] = []any{service}
		d.move(path+".service[0]", path+".service")
	}
}

func completeConditions(in map[string]any) {
	list, _ := in["conditions"].([]any)
	for i := range list {
		c, ok := list[i].(map[string]any)
		if !ok {
			continue
		}
		for key, value := range map[string]any{"reason": "Unspecified", "message": "",
			"lastTransitionTime": "1970-01-01T00:00:00Z"} {
			if c[key] == nil {
				c[key] = value
			}
		}
	}
}

func checkImport(o store.Object) []mistake {
	imp := o.(*inferenceapi.InferencePoolImport)
	var c checks
	for i, cluster := range imp.Status.Clusters {
		field := at("status.clusters", i)
		if cluster.EndpointPicker != nil {
			checkServices(&c, field+".endpointPicker.service", cluster.EndpointPicker.Service)
		}
		for j, p := range cluster.Parents {
			checkServices(&c, at(field+".parents", j)+".service", p.Service)
		}
		for j, e := range cluster.Endpoints {
			c.ip(at(field+".endpoints", j)+".address", e.Address)
		}
		for j, cidr := range cluster.PodCIDRs {
			c.cidr(fmt.Sprintf("%s.podCIDRs[%d]", field, j), cidr)
		}
	}
	return c.found
}

func checkServices(c *checks, field string, services []inferenceapi.ServiceImport) {
	for i, s := range services {
		for j, a := range s.Addresses {
			c.ipOrHost(at(at(field, i)+".addresses", j), a)
		}
	}
}
