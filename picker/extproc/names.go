package extproc

import (
	"cmp"
	"strings"
)

// Names are the names by which a data plane and a picker exchange endpoints. The zero value has
// those of the endpoint picker protocol.
type Names struct {
	// Destination is the header and the metadata key of a pick. Default:
	// x-gateway-destination-endpoint.
	Destination string
	// Namespace is the metadata namespace of a pick, and of the endpoint that served. Default:
	// envoy.lb.
	Namespace string
	// Subset is the metadata namespace of the endpoints among which a picker must choose. Default:
	// envoy.lb.subset_hint.
	Subset string
}

// Metadata namespaces and keys of the endpoint picker protocol.
const (
	namespaceLB     = "envoy.lb"
	namespaceSubset = "envoy.lb.subset_hint"
	keySubset       = "x-gateway-destination-endpoint-subset"
	keyDestination  = "x-gateway-destination-endpoint"
	keyServed       = "x-gateway-destination-endpoint-served"
)

// WithDefaults returns n with the protocol's names in place of empty ones.
func (n Names) WithDefaults() Names {
	return Names{cmp.Or(n.Destination, keyDestination), cmp.Or(n.Namespace, namespaceLB),
		cmp.Or(n.Subset, namespaceSubset)}
}

// Reserved reports whether Destination is a header with a meaning of its own, such as host: a
// gateway would take the pick for that.
func (n Names) Reserved() bool { return reserved(strings.ToLower(n.Destination)) }

// DefaultNames are those of the endpoint picker protocol.
func DefaultNames() Names { return Names{}.WithDefaults() }
