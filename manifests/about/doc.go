// Package about holds the kind of about.k8s.io that names a cluster: ClusterProperty (KEP-2149).
// Its schema is that project's, as far as Penstock reads it. Penstock never installs it.
//
// +kubebuilder:object:generate=true
// +groupName=about.k8s.io
// +versionName=v1alpha1
package about

// Group and Version of the kind here.
const (
	Group   = "about.k8s.io"
	Version = "v1alpha1"
)
