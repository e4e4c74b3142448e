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

// All parses "namespace/", which stands for all objects of a namespace.
func All(text string) (namespace string, ok bool) {
	namespace, ok = strings.CutSuffix(text, "/")
	return namespace, ok && namespace != "" && !strings.Contains(namespace, "/")
}

// Join returns "namespace/name".
func Join(namespace, name string) string { return namespace + "/" + name }

// Pool identifies an InferencePool or an InferencePoolImport. In a cluster set it identifies the
// pool in all clusters (namespace sameness). The zero Pool names no pool.
type Pool struct{ Namespace, Name string }

// ParsePool parses a result of Pool.String.
func ParsePool(text string) (Pool, bool) {
	namespace, name, ok := Split(text)
	return Pool{Namespace: namespace, Name: name}, ok
}

// IsZero reports whether p names no pool.
func (p Pool) IsZero() bool { return p == Pool{} }

// IsValid reports whether Kubernetes accepts the namespace, as a DNS label, and the name, as a DNS
// subdomain. It does not call Kubernetes' own functions: with their regular expressions, they took
// 2.5 % of an importer's CPU time.
func (p Pool) IsValid() bool { return isLabel(p.Namespace) && isSubdomain(p.Name) }

func isLabel(s string) bool {
	return len(s) <= validation.DNS1123LabelMaxLength && !strings.Contains(s, ".") && isSubdomain(s)
}

func isSubdomain(s string) bool {
	if len(s) > validation.DNS1123SubdomainMaxLength {
		return false
	}
	inner := false
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
			inner = true
		case c == '-' && i > 0 && s[i-1] != '.':
			inner = false
		case c == '.' && inner:
			inner = false
		default:
			return false
		}
	}
	return inner
}

// String returns "NAMESPACE/NAME", the object's key in the store.
func (p Pool) String() string { return Join(p.Namespace, p.Name) }

// Compare orders pools by namespace, then by name.
func (p Pool) Compare(o Pool) int {
	return cmp.Or(strings.Compare(p.Namespace, o.Namespace), strings.Compare(p.Name, o.Name))
}

// PoolOf returns the identity of an InferencePool or InferencePoolImport, or of another object with
// a pool's name.
func PoolOf(obj interface {
	GetNamespace() string
	GetName() string
}) Pool {
	return Pool{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}
