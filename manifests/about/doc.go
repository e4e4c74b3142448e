// Package about holds the kind ClusterProperty of about.k8s.io (KEP-2149). Penstock reads the
// cluster's name from it. It has the fields of the schema that Penstock reads. Penstock never
// installs its CRD.
//
// +groupName=about.k8s.io
// +versionName=v1alpha1
package about

const (
	Group   = "about.k8s.io"
	Version = "v1alpha1"
)
