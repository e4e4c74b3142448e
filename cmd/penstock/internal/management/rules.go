package management

import (
	_ "embed"
	"strings"
)

//go:embed rules.yaml
var rules string

// createNamespaces is the rule that spec.createNamespaces of the ClusterSet needs.
const createNamespaces = `- apiGroups: [""]
  resources: [namespaces]
  verbs: [create]
`

// readPods is the rule by which a hub that relays has the endpoints of exported pools.
const readPods = `- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch]
`

// Rules are the objects that give a hub its permissions in a member: a service account in a namespace, and its ClusterRole. namespaces: it may make
// namespaces. pods: it may read pods.
func Rules(namespace string, namespaces, pods bool) string {
	more := ""
	if namespaces {
		more += createNamespaces
	}
	if pods {
		more += readPods
	}
	return strings.NewReplacer("NAMESPACE", namespace, "# CREATE\n", more).Replace(rules)
}
