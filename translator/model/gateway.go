package model

import (
	"github.com/penstock-project/penstock/discovery/report"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// Gateway is a Gateway of ours, with every listener decided: valid or not, which routes it takes, which chain it is in.
type Gateway struct {
	Ref       report.Ref
	Addresses []string    // IP addresses to bind; ["0.0.0.0"] unless spec.addresses says otherwise
	Listeners []*Listener // in the order of the spec
	// Fleet is how its proxies run, the class's parameters included; nil if the Gateway is not accepted: what runs stays.
	Fleet      *v1alpha1.EnvoyFleetSpec
	Conditions []report.Condition
	Findings   []report.Finding
}

// Listener is one listener of a Gateway.
type Listener struct {
	Name           string
	Port           uint16
	Protocol       string   // HTTP or HTTPS; others carry conditions and no chain
	Hostname       string   // lower case; "*" when the user gave none; "*.example.com"
	Chain          string   // ChainName; "" if the listener takes no traffic (its conditions say why)
	Secrets        []string // SecretName of each certificate, HTTPS only, in the order of the spec
	Allowed        AllowedRoutes
	SupportedKinds []report.Ref // Group and Kind only
	Conditions     []report.Condition
}

// AllowedRoutes says which routes may attach to a listener.
type AllowedRoutes struct {
	Kinds    []report.Ref // Group and Kind only
	From     string       // All, Same, Selector or None
	Selector string       // labels.Selector in text form, for From Selector
}

// Port is what Envoy binds: all listeners of a Gateway on one port.
type Port struct {
	Gateway   string // "namespace/name"
	Number    uint16
	Addresses []string
	Chains    []Chain // sorted by name
	Owners    []report.Ref
}

// Chain is one filter chain, with one route configuration, both of the same name.
type Chain struct {
	Name       string // ChainName
	ServerName string // "" for cleartext and for "*"; else the SNI to match, "example.com" or "*.example.com"
	TLS        bool
	Secrets    []string // SDS names, for TLS
	// Misdirected are hostnames of other HTTPS listeners on the same port: a request for one of them that came over
	// this chain is answered 421 (Gateway API, "Listener isolation and connection coalescing").
	Misdirected []string
}

// Place is where a route is attached: hosts of one listener's chain.
type Place struct {
	Gateway      string   // "namespace/name"
	Listener     string   // listener name
	Chain        string   // ChainName; "" for a listener that takes no traffic, to which a route may be attached all the same
	ListenerHost string   // the listener's hostname
	Hosts        []string // the hosts that the route answers for there, sorted: intersection of listener's and route's hostnames
}

// Attachment is a route with everything decided about it: where it is attached, what its rules do, what to say of it.
type Attachment struct {
	Route   report.Ref
	Created int64 // creation time in seconds since 1970, 0 from files: older routes win ties (Gateway API, HTTPRouteRule)
	// Hostnames are the route's own, in lower case, sorted; "*" if it has none. They order routes that meet at one host.
	Hostnames []string
	Places    []Place
	Rules     []Rule
	Parents   []report.Parent
	Findings  []report.Finding
	// Backends are the objects that its rules name, as store.TargetKey: "InferencePool default/llm".
	Backends []string
	// Clusters and Hops are all that its rules need, spill targets and pickers included; sorted.
	Clusters []string
	Hops     []string
}

// Rule is one rule of a route; its matches are alternatives with one action.
type Rule struct {
	Name    string // the rule's own name, if it has one
	Index   int    // position, for findings and explanations; never part of a name
	Matches []Match
	Action  Action
}

// VirtualHost is one host of a chain with its routes in the order in which Envoy shall try them.
type VirtualHost struct {
	Gateway string
	Chain   string
	Host    string // "*", "example.com" or "*.example.com"
	Routes  []Route
	Owners  []report.Ref // routes, and the Gateway
}

// Route is one match of one rule, in its place within a virtual host.
type Route struct {
	Name   string // RouteName: unique in its virtual host
	Owner  report.Ref
	Rule   int // position of the rule in its owner, for explanations
	Match  Match
	Action *Action
}
