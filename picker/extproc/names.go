package extproc

import (
	"cmp"
	"strings"
)

// Names are the names with which a data plane and a picker exchange endpoints. The defaults are
// the endpoint picker protocol's names.
type Names struct {
	// Destination is the header and metadata key of a pick; default x-gateway-destination-endpoint.
	Destination string
	// Namespace is the metadata namespace of picks and serving endpoints; default envoy.lb.
	Namespace string
	// Subset is the metadata namespace of the subset hint; default envoy.lb.subset_hint.
	Subset string
}

const (
	namespaceLB     = "envoy.lb"
	namespaceSubset = "envoy.lb.subset_hint"
	keySubset       = "x-gateway-destination-endpoint-subset"
	keyDestination  = "x-gateway-destination-endpoint"
	keyServed       = "x-gateway-destination-endpoint-served"
)

// WithDefaults returns n with defaults for empty names.
func (n Names) WithDefaults() Names {
	return Names{cmp.Or(n.Destination, keyDestination), cmp.Or(n.Namespace, namespaceLB),
		cmp.Or(n.Subset, namespaceSubset)}
}

// Reserved reports whether Destination is a header with another meaning, such as host.
func (n Names) Reserved() bool { return reserved(strings.ToLower(n.Destination)) }

// DefaultNames returns the endpoint picker protocol's names.
func DefaultNames() Names { return Names{}.WithDefaults() }
