package report

import (
	"cmp"
	"fmt"
	"strings"
)

// Ref names one object: the key of every report and the owner on every Envoy resource.
type Ref struct {
	Group     string `json:"group,omitempty"` // API group; empty for core
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"` // empty for cluster-scoped kinds
	Name      string `json:"name"`
}

// Key is the store's primary key of the object: "namespace/name", or "name" for a cluster-scoped
// kind.
func (r Ref) Key() string {
	if r.Namespace == "" {
		return r.Name
	}
	return r.Namespace + "/" + r.Name
}

// String is the form that people read: "HTTPRoute default/chat".
func (r Ref) String() string { return r.Kind + " " + r.Key() }

// Compare orders by kind, namespace, name, group.
func (r Ref) Compare(o Ref) int {
	return cmp.Or(strings.Compare(r.Kind, o.Kind), strings.Compare(r.Namespace, o.Namespace),
		strings.Compare(r.Name, o.Name), strings.Compare(r.Group, o.Group))
}

// The three values of a condition's status.
const (
	True    = "True"
	False   = "False"
	Unknown = "Unknown"
)

// Condition is metav1.Condition without the fields that a writer adds (generation, transition
// time).
type Condition struct {
	Type   string `json:"type"`
	Status string `json:"status"` // True, False or Unknown
	// CamelCase, from the Gateway API or inference extension specification where it has one
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// ParentRef names the parent that a route or pool is attached to, as the user wrote it (after
// defaulting).
type ParentRef struct {
	Group       string `json:"group,omitempty"`
	Kind        string `json:"kind"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name"`
	SectionName string `json:"sectionName,omitempty"`
	Port        int32  `json:"port,omitempty"` // 0: not given
}

// Parent is the status of an object for one parent: RouteParentStatus, or an InferencePool's parent
// status.
type Parent struct {
	Ref        ParentRef   `json:"parentRef"`
	Conditions []Condition `json:"conditions"`
}

// Listener is the status of one listener of a Gateway or ListenerSet: ListenerStatus,
// ListenerEntryStatus.
type Listener struct {
	Name           string      `json:"name"`
	SupportedKinds []Ref       `json:"supportedKinds,omitempty"` // only Group and Kind are set
	AttachedRoutes int32       `json:"attachedRoutes"`
	Conditions     []Condition `json:"conditions"`
}

// Severity is how much of what the user wrote takes effect.
type Severity string

// An Error means that something written does not take effect; a Warning, that it takes effect but
// perhaps not as intended; an Info needs no action.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

// Finding is one problem shown to a user. It is printed as "source: owner field: problem; fix".
type Finding struct {
	Severity Severity `json:"severity"`
	Owner    Ref      `json:"owner,omitzero"`   // zero if no object could be read at all
	Source   string   `json:"source,omitempty"` // "file:line", where known
	Field    string   `json:"field,omitempty"`  // JSON path, such as spec.rules[0].backendRefs[1].port
	Problem  string   `json:"problem"`
	Fix      string   `json:"fix,omitempty"` // what to write instead
}

func (f Finding) String() string {
	var b strings.Builder
	if f.Source != "" {
		fmt.Fprintf(&b, "%s: ", f.Source)
	}
	if f.Owner != (Ref{}) {
		fmt.Fprintf(&b, "%s ", f.Owner)
	}
	if f.Field != "" {
		fmt.Fprintf(&b, "%s: ", f.Field)
	}
	b.WriteString(f.Problem)
	if f.Fix != "" {
		fmt.Fprintf(&b, "; %s", f.Fix)
	}
	return b.String()
}

// Report is everything that one source, such as translation, the file reader or a proxy, reports
// about one object.
type Report struct {
	Owner      Ref         `json:"object"`
	Conditions []Condition `json:"conditions,omitempty"`
	// routes, InferencePools; of a policy its ancestors, which are Gateways
	Parents   []Parent   `json:"parents,omitempty"`
	Listeners []Listener `json:"listeners,omitempty"` // Gateways and ListenerSets
	Addresses []string   `json:"addresses,omitempty"` // Gateways
	// AttachedListenerSets is the number of ListenerSets that a Gateway has accepted.
	AttachedListenerSets int32     `json:"attachedListenerSets,omitempty"`
	Findings             []Finding `json:"findings,omitempty"`
}

// Set puts c in place of the condition of the same type in list, or appends it.
func Set(list []Condition, c Condition) []Condition {
	for i := range list {
		if list[i].Type == c.Type {
			list[i] = c
			return list
		}
	}
	return append(list, c)
}

// Programmed is the type of the condition that reports whether proxies have the configuration.
const Programmed = "Programmed"

// NotProgrammed is the condition by which a source reports why an object is not programmed. It is a
// vote: discovery/status ranks the sources, and on Kubernetes discovery/status/shape.Programmed
// decides what a status shows.
func NotProgrammed(reason, message string) Condition {
	return Condition{Type: Programmed, Status: False, Reason: reason, Message: message}
}

// Find returns the condition of a type, or nil.
func Find(list []Condition, typ string) *Condition {
	for i := range list {
		if list[i].Type == typ {
			return &list[i]
		}
	}
	return nil
}
