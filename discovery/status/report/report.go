package report

import (
	"cmp"
	"fmt"
	"strings"
)

// Ref names one object: the key of every report and the owner of every Envoy resource.
type Ref struct {
	Group     string `json:"group,omitempty"` // API group; "": the core group
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"` // "": the kind is cluster-scoped
	Name      string `json:"name"`
}

// Key returns the object's primary key in the store: "namespace/name", or "name" for a
// cluster-scoped kind.
func (r Ref) Key() string {
	if r.Namespace == "" {
		return r.Name
	}
	return r.Namespace + "/" + r.Name
}

// String returns a text for people, such as "HTTPRoute default/chat".
func (r Ref) String() string { return r.Kind + " " + r.Key() }

// Compare orders by kind, namespace, name, group.
func (r Ref) Compare(o Ref) int {
	return cmp.Or(strings.Compare(r.Kind, o.Kind), strings.Compare(r.Namespace, o.Namespace),
		strings.Compare(r.Name, o.Name), strings.Compare(r.Group, o.Group))
}

const (
	True    = "True"
	False   = "False"
	Unknown = "Unknown"
)

// Condition is a metav1.Condition without generation and transition time, which the writer of the
// status adds.
type Condition struct {
	Type   string `json:"type"`
	Status string `json:"status"` // True, False or Unknown
	// Reason is a reason that the Gateway API or another specification defines, if one fits.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// ParentRef names the parent of a route or pool as in the object, after defaulting.
type ParentRef struct {
	Group       string `json:"group,omitempty"`
	Kind        string `json:"kind"`
	Namespace   string `json:"namespace,omitempty"`
	Name        string `json:"name"`
	SectionName string `json:"sectionName,omitempty"`
	Port        int32  `json:"port,omitempty"` // 0: the reference names no port
}

// Parent is the status of an object for one parent (RouteParentStatus).
type Parent struct {
	Ref        ParentRef   `json:"parentRef"`
	Conditions []Condition `json:"conditions"`
}

// Listener is the status of one listener of a Gateway or ListenerSet (ListenerStatus,
// ListenerEntryStatus).
type Listener struct {
	Name           string      `json:"name"`
	SupportedKinds []Ref       `json:"supportedKinds,omitempty"` // only Group and Kind are set
	AttachedRoutes int32       `json:"attachedRoutes"`
	Conditions     []Condition `json:"conditions"`
}

// Severity is how severe the effect of a finding is.
type Severity string

// Error: a part of the object has no effect. Warning: a part may have another effect than intended.
// Info: no action is needed.
const (
	Error   Severity = "error"
	Warning Severity = "warning"
	Info    Severity = "info"
)

// Finding is one problem for the user. It is printed as "source: owner field: problem; fix".
type Finding struct {
	Severity Severity `json:"severity"`
	Owner    Ref      `json:"owner,omitzero"`   // zero: the finding belongs to no object
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

// Report is the report of one source about one object.
type Report struct {
	Owner      Ref         `json:"object"`
	Conditions []Condition `json:"conditions,omitempty"`
	// Parents are set for routes and InferencePools. For policies, they are the ancestor Gateways.
	Parents   []Parent   `json:"parents,omitempty"`
	Listeners []Listener `json:"listeners,omitempty"` // only for Gateways and ListenerSets
	Addresses []string   `json:"addresses,omitempty"` // only for Gateways
	// AttachedListenerSets is the number of ListenerSets that a Gateway has accepted.
	AttachedListenerSets int32     `json:"attachedListenerSets,omitempty"`
	Findings             []Finding `json:"findings,omitempty"`
}

// Set replaces the condition of the same type in list by c, or appends c.
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

// NotProgrammed returns the condition Programmed with status False.
func NotProgrammed(reason, message string) Condition {
	return Condition{Type: Programmed, Status: False, Reason: reason, Message: message}
}

// Find returns the condition of a type in list, or nil.
func Find(list []Condition, typ string) *Condition {
	for i := range list {
		if list[i].Type == typ {
			return &list[i]
		}
	}
	return nil
}
