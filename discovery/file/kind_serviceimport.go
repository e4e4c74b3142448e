package file

import (
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/penstock-project/penstock/discovery/store"
)

// serviceImportKind reads v1alpha1 like v1beta1: the fields that are read have the same shape.
func serviceImportKind() *kind {
	return &kind{
		table:    store.ServiceImports,
		versions: []version{{"multicluster.x-k8s.io/v1beta1", nil}, {"multicluster.x-k8s.io/v1alpha1", nil}},
		crd:      mcsv1beta1.ServiceImportPluralName,
		check:    checkServiceImport,
	}
}

func checkServiceImport(o store.Object) []mistake {
	s := o.(*mcsv1beta1.ServiceImport)
	var c checks
	for i, ip := range s.Spec.IPs {
		c.ip(at("spec.ips", i), ip)
	}
	for i, p := range s.Spec.Ports {
		c.port(at("spec.ports", i)+".port", p.Port)
	}
	return c.found
}
