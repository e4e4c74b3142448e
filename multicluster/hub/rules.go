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

// Rules returns, as YAML, the RBAC objects that give a hub its permissions in a member. namespace
// is the namespace of the hub's ServiceAccount in the member. If namespaces is true, the hub may
// create namespaces.
func Rules(namespace string, namespaces bool) string {
	more := ""
	if namespaces {
		more = createNamespaces
	}
	return strings.NewReplacer("NAMESPACE", namespace, "# CREATE\n", more).Replace(rules)
}
