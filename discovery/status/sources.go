package status

import (
	"slices"
	"strings"
)

const (
	Cluster     = "kubernetes"  // discovery/kube: missing or forbidden kinds
	Files       = "files"       // discovery/file: invalid documents
	Translation = "translation" // conditions that the specifications define, and findings
	// policies in files that proxies have not acknowledged; one instance for each Gateway
	Acks     = "acks"
	Internal = "internal" // panics of translation, by object
	// Envoys that Penstock runs: their addresses, and why they do not serve
	Supervisor = "supervisor"
	Ports      = "ports"   // ports of this machine that another Gateway uses
	Members    = "members" // multicluster: exports, and the state of the other clusters
	Imports    = "imports" // multicluster: the clusters of imports; not on Kubernetes
	// remote pickers that are down or of unknown health; one instance for each picker
	Pickers = "pickers"
	// remote pickers that cannot be called; one instance for each pool and process
	Relay = "relay"
	// gateways of other clusters without a route for the requests that they receive; one instance
	// for each exporting cluster and process
	Answers = "answers"
	Keys    = "keys" // API keys that let no request pass; one instance for each key
	// JWT key sets that cannot be read or fetched; one instance for each policy
	Tokens       = "tokens"
	Usage        = "usage"        // counts of requests that are not in the usage database yet
	Deployments  = "deployments"  // ModelDeployments and ModelRegistries: their mistakes, and phases of servers
	Rates        = "rates"        // model servers whose reported rate differs from the picker's estimate
	Servers      = "servers"      // pools without a serving server; one instance for each pool
	Certificates = "certificates" // certificates that have expired or expire soon
	Envoy        = "envoy"        // "penstock translate --validate": Envoy's rejections
	Proxy        = "proxy"        // NACKs; one instance for each proxy and process
)

// precedence ranks the sources. If two sources report a condition of the same type on one object,
// the condition of the later source wins. For example, a proxy's NACK overrides translation.
// Instances of a source rank by name.
var precedence = []string{Cluster, Files, Translation, Acks, Internal, Supervisor, Ports, Members, Imports, Pickers,
	Relay, Answers, Keys, Tokens, Deployments, Rates, Servers, Certificates, Envoy, Proxy}

// Instance returns the name of one of several sources of the same kind, such as Instance(Proxy,
// "default/gw node-1").
func Instance(source, name string) string { return source + " " + name }

func rank(source string) (place int, instance string) {
	name, instance, _ := strings.Cut(source, " ")
	if place = slices.Index(precedence, name); place < 0 {
		return len(precedence), source
	}
	return place, instance
}
