package objectid

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Split splits "namespace/name". Both parts must be non-empty, without a slash.
func Split(text string) (namespace, name string, ok bool) {
	namespace, name, ok = strings.Cut(text, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return "", "", false
	}
	return namespace, name, true
}

// Join returns "namespace/name".
func Join(namespace, name string) string { return namespace + "/" + name }

// Pool identifies an InferencePool or an InferencePoolImport. In a cluster set it identifies the
// pool in all clusters (namespace sameness). The zero Pool names no pool.
type Pool struct{ Namespace, Name string }

// ParsePool parses String.
func ParsePool(text string) (Pool, bool) {
	namespace, name, ok := Split(text)
	return Pool{Namespace: namespace, Name: name}, ok
}

// IsZero reports whether p names no pool.
func (p Pool) IsZero() bool { return p == Pool{} }

// IsValid reports whether Kubernetes accepts both names.
func (p Pool) IsValid() bool {
	return len(validation.IsDNS1123Label(p.Namespace)) == 0 && len(validation.IsDNS1123Subdomain(p.Name)) == 0
}

// String returns "NAMESPACE/NAME", the object's key in the store.
func (p Pool) String() string { return Join(p.Namespace, p.Name) }

// Compare orders pools by namespace, then by name.
func (p Pool) Compare(o Pool) int {
	return cmp.Or(strings.Compare(p.Namespace, o.Namespace), strings.Compare(p.Name, o.Name))
}

// PoolOf returns the identity of an InferencePool or InferencePoolImport, or of an object with its
// name.
func PoolOf(obj interface {
	GetNamespace() string
	GetName() string
}) Pool {
	return Pool{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}
