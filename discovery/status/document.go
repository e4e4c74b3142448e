package status

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
)

// Document is the content of the status file and of "penstock status -o json".
type Document struct {
	Objects  []Object         `json:"objects"`  // objects with at least one report, sorted
	Findings []report.Finding `json:"findings"` // errors first, then by file and line
}

// Object is one object's status.
type Object struct {
	report.Ref
	Status Status `json:"status"`
}

// Status is the status of an object of any kind, with fields as in the Gateway API.
type Status struct {
	Addresses  []Address          `json:"addresses,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	Listeners  []Listener         `json:"listeners,omitempty"`
	Parents    []Parent           `json:"parents,omitempty"`
	Ancestors  []Ancestor         `json:"ancestors,omitempty"` // policies have ancestors instead of parents

	AttachedListenerSets int32 `json:"attachedListenerSets,omitempty"`
}

// Address is one address of a Gateway.
type Address struct {
	Type  string `json:"type"` // IPAddress or Hostname
	Value string `json:"value"`
}

// Listener is one listener of a Gateway or ListenerSet.
type Listener struct {
	Name           string             `json:"name"`
	SupportedKinds []RouteKind        `json:"supportedKinds"`
	AttachedRoutes int32              `json:"attachedRoutes"`
	Conditions     []metav1.Condition `json:"conditions"`
}

// RouteKind is a kind of route that may attach to a listener.
type RouteKind struct {
	Group string `json:"group,omitempty"`
	Kind  string `json:"kind"`
}

// Parent is the status of a route or pool for one of its parents.
type Parent struct {
	ParentRef      report.ParentRef   `json:"parentRef"`
	ControllerName string             `json:"controllerName"`
	Conditions     []metav1.Condition `json:"conditions"`
}

// Ancestor is the status of a policy for one Gateway that it affects (PolicyAncestorStatus).
type Ancestor struct {
	AncestorRef    report.ParentRef   `json:"ancestorRef"`
	ControllerName string             `json:"controllerName"`
	Conditions     []metav1.Condition `json:"conditions"`
}

var policies = []string{"BackendTLSPolicy", "AccessPolicy"}

func (s Status) allParents() []Parent {
	out := slices.Clone(s.Parents)
	for _, a := range s.Ancestors {
		out = append(out, Parent{ParentRef: a.AncestorRef, ControllerName: a.ControllerName, Conditions: a.Conditions})
	}
	return out
}

type maker struct {
	controller string
	now        time.Time
	before     map[conditionKey]metav1.Condition
}

type conditionKey struct {
	owner    report.Ref
	parent   report.ParentRef
	listener string
	typ      string
}

// NewDocument makes a document from a Board's reports. before, which may be nil, is the previous
// document. A condition with the same status in before keeps its transition time. Other conditions
// get the time now.
func NewDocument(reports []report.Report, controller string, before *Document, now time.Time) *Document {
	m := &maker{controller: controller, now: now.UTC().Truncate(time.Second),
		before: map[conditionKey]metav1.Condition{}}
	if before != nil {
		m.remember(before)
	}
	doc := &Document{Objects: make([]Object, 0, len(reports)), Findings: findings(reports)}
	for _, r := range reports {
		if r.Owner != (report.Ref{}) && len(r.Conditions)+len(r.Parents)+len(r.Listeners)+len(r.Addresses) > 0 {
			doc.Objects = append(doc.Objects, m.object(r))
		}
	}
	return doc
}

func findings(reports []report.Report) []report.Finding {
	all := []report.Finding{}
	for _, r := range reports {
		all = append(all, r.Findings...)
	}
	slices.SortStableFunc(all, compareFindings)
	return all
}

func (m *maker) remember(before *Document) {
	for _, o := range before.Objects {
		for _, c := range o.Status.Conditions {
			m.before[conditionKey{owner: o.Ref, typ: c.Type}] = c
		}
		for _, l := range o.Status.Listeners {
			for _, c := range l.Conditions {
				m.before[conditionKey{owner: o.Ref, listener: l.Name, typ: c.Type}] = c
			}
		}
		for _, p := range o.Status.allParents() {
			for _, c := range p.Conditions {
				m.before[conditionKey{owner: o.Ref, parent: p.ParentRef, typ: c.Type}] = c
			}
		}
	}
}

func (m *maker) object(r report.Report) Object {
	o := Object{Ref: r.Owner}
	for _, a := range r.Addresses {
		o.Status.Addresses = append(o.Status.Addresses, Address{report.AddressType(a), a})
	}
	o.Status.Conditions = m.conditions(conditionKey{owner: r.Owner}, r.Conditions)
	o.Status.AttachedListenerSets = r.AttachedListenerSets
	for _, l := range r.Listeners {
		out := Listener{Name: l.Name, AttachedRoutes: l.AttachedRoutes, SupportedKinds: []RouteKind{}}
		for _, k := range l.SupportedKinds {
			out.SupportedKinds = append(out.SupportedKinds, RouteKind{k.Group, k.Kind})
		}
		out.Conditions = m.conditions(conditionKey{owner: r.Owner, listener: l.Name}, l.Conditions)
		o.Status.Listeners = append(o.Status.Listeners, out)
	}
	for _, p := range r.Parents {
		conditions := m.conditions(conditionKey{owner: r.Owner, parent: p.Ref}, p.Conditions)
		if slices.Contains(policies, r.Owner.Kind) {
			o.Status.Ancestors = append(o.Status.Ancestors, Ancestor{p.Ref, m.controller, conditions})
		} else {
			o.Status.Parents = append(o.Status.Parents, Parent{p.Ref, m.controller, conditions})
		}
	}
	return o
}

func (m *maker) conditions(key conditionKey, list []report.Condition) []metav1.Condition {
	out := make([]metav1.Condition, 0, len(list))
	for _, c := range list {
		key.typ = c.Type
		since := metav1.NewTime(m.now)
		if old, ok := m.before[key]; ok && string(old.Status) == c.Status {
			since = old.LastTransitionTime
		}
		out = append(out,
			metav1.Condition{Type: c.Type, Status: metav1.ConditionStatus(c.Status), Reason: c.Reason,
				Message: c.Message, LastTransitionTime: since})
	}
	return out
}

// Join merges the documents of several processes. It returns the first document with the findings
// that only other documents have: each process reports only the NACKs of its own proxies.
func Join(all []*Document) *Document {
	out := *all[0]
	out.Findings = slices.Clone(out.Findings)
	has := map[string]bool{}
	for _, f := range out.Findings {
		has[f.String()] = true
	}
	for _, doc := range all[1:] {
		for _, f := range doc.Findings {
			if !has[f.String()] {
				has[f.String()] = true
				out.Findings = append(out.Findings, f)
			}
		}
	}
	slices.SortStableFunc(out.Findings, compareFindings)
	return &out
}

func compareFindings(a, b report.Finding) int {
	rank := func(s report.Severity) int {
		return slices.Index([]report.Severity{report.Error, report.Warning, report.Info}, s)
	}
	if d := rank(a.Severity) - rank(b.Severity); d != 0 {
		return d
	}
	return comparePlaces(a.Source, b.Source)
}
