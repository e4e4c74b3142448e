package status

import (
	"slices"
	"strings"
)

// Sources of reports.
const (
	Cluster     = "kubernetes"  // discovery/kube: kinds that are missing or forbidden
	Files       = "files"       // discovery/file: documents that are invalid
	Translation = "translation" // conditions as the specifications define them, and findings
	Internal    = "internal"    // objects whose translation panics
	Supervisor  = "supervisor"  // the Envoys that Penstock runs: their addresses, and why they do not serve
	Ports       = "ports"       // ports of this machine that another Gateway has
	Members     = "members"     // multicluster: what is exported to other clusters, and the state of those
	Imports     = "imports"     // multicluster: the clusters of imports, in a folder
	Pickers     = "pickers"     // remote pickers that are down, or whose health is unknown, one instance a picker
	Relay       = "relay"       // remote pickers that cannot be asked, one instance a pool and process
	// gateways of other clusters that have no route for what they are asked for, one instance an
	// exporting cluster and process
	Answers      = "answers"
	Rates        = "rates"        // model servers whose rate the picker learns otherwise than they report it
	Servers      = "servers"      // pools of which no server serves, one instance a pool
	Certificates = "certificates" // certificates that have ended, or end soon
	Envoy        = "envoy"        // "penstock translate --validate": what Envoy rejects
	Proxy        = "proxy"        // NACKs, one instance a proxy and process
)

// precedence ranks the sources: of two that report a condition of the same type on one object, the
// later one in the list wins. So a proxy's NACK stands over what translation expects. Two instances
// of one source rank by name. Findings of all sources are shown.
var precedence = []string{Cluster, Files, Translation, Internal, Supervisor, Ports, Members, Imports, Pickers, Relay,
	Answers, Rates, Servers, Certificates, Envoy, Proxy}

// Instance names one of several sources of a kind, such as Instance(Proxy, "default/gw node-1").
func Instance(source, name string) string { return source + " " + name }

// rank returns a source's place in precedence, and its instance. A source that is not listed wins
// over all that are.
func rank(source string) (place int, instance string) {
	name, instance, _ := strings.Cut(source, " ")
	if place = slices.Index(precedence, name); place < 0 {
		return len(precedence), source
	}
	return place, instance
}
