// Package about holds the kind ClusterProperty of about.k8s.io (KEP-2149). Penstock reads the
// cluster's name from it. The Go type has only the fields that Penstock reads. Penstock never
// installs the CRD.
//
// +groupName=about.k8s.io
// +versionName=v1alpha1
package about

const (
	Group   = "about.k8s.io"
	Version = "v1alpha1"
)
