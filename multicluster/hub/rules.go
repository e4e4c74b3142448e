package hub

import (
	_ "embed"
	"strings"
)

//go:embed rules.yaml
var rules string

const createNamespaces = `- apiGroups: [""]
  resources: [namespaces]
  verbs: [create]
`

// Rules returns, as YAML, the RBAC objects of a hub in a member. namespace has the hub's
// ServiceAccount there. With namespaces, the hub may create namespaces.
func Rules(namespace string, namespaces bool) string {
	more := ""
	if namespaces {
		more = createNamespaces
	}
	return strings.NewReplacer("NAMESPACE", namespace, "# CREATE\n", more).Replace(rules)
}
