package endpointpicker

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// Bounds of a document.
const (
	maxPlugins  = 64
	maxSelected = 32 // plugins of a profile
)

// Profile is what a document makes of a strategy. It must not be changed.
//
// +kubebuilder:object:generate=false
type Profile struct {
	Filters []Instance // in this order
	Scorers []Instance
	Picker  string // a type
	// Pages, Prompts and Sessions: some plugin reads the servers' metrics pages, the prompts of requests, or their sessions.
	Pages, Prompts, Sessions bool
	// External are the scorers in other processes, in the order of Scorers.
	External []*External
	// Precise means that prefixes come from KV events.
	Precise bool
	// Flow is the flow control of the document; nil if it is off.
	Flow *Flow
	// Disagg has the further servers of requests; nil: there are none.
	Disagg *Disagg
	// Dynamo has requests name workers of Dynamo; nil: they do not.
	Dynamo *Dynamo
	// Clusters is the choice among the clusters of an import; nil: the document is for pools.
	Clusters *Clusters
	// MaxEndpoints is the picker's maxNumOfEndpoints, which only the profile of encode has a use for; at least 1.
	MaxEndpoints int
}

// Instance is a plugin with its parameters.
//
// +kubebuilder:object:generate=false
type Instance struct {
	Name, Type string
	Weight     float64 // of a scorer
	Parameters any     // *LabelSelector, *ActiveRequest, *TokenLoad, *LoadAware, *PrefixCache; nil for a type without any
}

// Problem is what is wrong with a document.
//
// +kubebuilder:object:generate=false
type Problem struct {
	Warning bool   // the document works without it
	Field   string // its path in the document
	Problem string
	Fix     string
}

func (p Problem) String() string {
	text := p.Problem
	if p.Field != "" {
		text = p.Field + ": " + text
	}
	if p.Fix != "" {
		text += "; " + p.Fix
	}
	return text
}

// Invalid reports whether problems make a document invalid.
func Invalid(problems []Problem) bool {
	return slices.ContainsFunc(problems, func(p Problem) bool { return !p.Warning })
}

// Resolve returns the profile of a document, and the document's problems sorted by field. The profile is nil if the document is
// invalid.
func Resolve(c *EndpointPickerConfig) (*Profile, []Problem) {
	r := resolver{instances: map[string]*instance{}}
	r.unsupported(c)
	r.plugins(c.Plugins)
	r.producers()
	p := r.profile(c)
	p.Flow, p.Dynamo = r.flow(c), r.dynamo()
	p.Prompts = p.Prompts || p.Dynamo != nil // bodies name workers too
	r.alone(p)
	slices.SortStableFunc(r.problems, func(a, b Problem) int { return cmp.Compare(a.Field, b.Field) })
	if Invalid(r.problems) {
		return nil, r.problems
	}
	return p, r.problems
}

// resolver collects the problems of one document.
type resolver struct {
	instances map[string]*instance
	names     []string // of instances, in the document's order
	problems  []Problem
}

// instance is a plugin of the document.
type instance struct {
	Instance
	kind  kind
	field string
}

func (r *resolver) wrong(field, fix, problem string, args ...any) {
	r.problems = append(r.problems, Problem{Field: field, Problem: fmt.Sprintf(problem, args...), Fix: fix})
}

// needless reports a plugin for what Penstock does by itself, unless it demands what Penstock would do otherwise.
func (r *resolver) needless(in *instance, why string, raw *runtime.RawExtension) {
	r.problems = append(r.problems, noEffect(in.field, true, why)...)
	var s dataSource
	if in.Type != metricsDataSource || raw == nil || json.Unmarshal(raw.Raw, &s) != nil {
		return
	}
	if s.Scheme == "https" {
		r.wrong(in.field+".parameters.scheme", "remove it, and write a BackendTLSPolicy for the InferencePool, by which its pages are read over TLS", "https is not supported")
	}
	if s.Path != "" && s.Path != "/metrics" {
		r.wrong(in.field+".parameters.path", "remove it, and set spec.picker.metrics.path of the PoolPolicy", "%q is not supported", s.Path)
	}
}

// unsupported reports the parts of a document that are for other parts of llm-d's router.
func (r *resolver) unsupported(c *EndpointPickerConfig) {
	for _, part := range []struct {
		field string
		set   bool
		why   string
	}{
		{"dataLayer", c.DataLayer != nil, readsPages},
		{"requestHandler", c.RequestHandler != nil, readsRequests},
		{"parser", c.Parser != nil, readsRequests},
	} {
		r.problems = append(r.problems, noEffect(part.field, part.set, part.why)...)
	}
}

func (r *resolver) plugins(list []Plugin) {
	if len(list) == 0 {
		r.wrong("plugins", "list at least one plugin", "is empty")
	}
	if len(list) > maxPlugins {
		r.wrong("plugins", "remove some", "has %d plugins; at most %d are allowed", len(list), maxPlugins)
		list = list[:maxPlugins]
	}
	for i := range list {
		field := fmt.Sprintf("plugins[%d]", i)
		in := &instance{field: field}
		in.Name, in.Type = cmp.Or(list[i].Name, list[i].Type), list[i].Type
		known := false
		if why, ok := needless[in.Type]; ok {
			in.kind = kind{role: Producer}
			r.needless(in, why, list[i].Parameters)
		} else if in.kind, known = kinds[in.Type]; !known {
			r.wrong(field+".type", cmp.Or(instead[in.Type], "use one of "+strings.Join(Types(), ", ")), "%q is not a type of plugins that Penstock has", in.Type)
		} else {
			r.parameters(in, list[i].Parameters)
		}
		if r.instances[in.Name] != nil {
			r.wrong(field+".name", "give one of them another name", "%q is the name of another plugin too", in.Name)
			continue
		}
		r.instances[in.Name] = in
		r.names = append(r.names, in.Name)
	}
}

// parameters decodes a plugin's parameters over their defaults.
func (r *resolver) parameters(in *instance, raw *runtime.RawExtension) {
	field := in.field + ".parameters"
	empty := raw == nil || len(raw.Raw) == 0 || string(raw.Raw) == "null" || string(raw.Raw) == "{}"
	if in.kind.parameters == nil {
		if !empty {
			r.wrong(field, "remove it", "%s has no parameters", in.Type)
		}
		return
	}
	p := in.kind.parameters()
	in.Parameters = p
	if !empty {
		d := json.NewDecoder(bytes.NewReader(raw.Raw))
		d.DisallowUnknownFields()
		if err := d.Decode(p); err != nil {
			r.wrong(field, "correct the field, or remove it", "is not valid for %s: %s", in.Type, strings.TrimPrefix(err.Error(), "json: "))
			return
		}
	}
	for _, found := range p.check() {
		found.Field = strings.TrimSuffix(field+"."+found.Field, ".")
		r.problems = append(r.problems, found)
	}
}

// producers checks the names of producers in parameters.
func (r *resolver) producers() {
	for _, name := range r.names {
		in := r.instances[name]
		user, ok := in.Parameters.(interface {
			producer() (field, name, kind string)
		})
		if !ok {
			continue
		}
		field, named, kind := user.producer()
		if named == "" || named == kind {
			continue // without one in the document, the producer is made of its defaults
		}
		fits := kind
		if kind == ApproximatePrefixProducer {
			fits += " or " + PrecisePrefixProducer
		}
		if p := r.instances[named]; p == nil || p.Type != kind && (kind != ApproximatePrefixProducer || p.Type != PrecisePrefixProducer) {
			r.wrong(in.field+".parameters."+field, "name a plugin of type "+fits, "%q is not the name of such a plugin", named)
		}
	}
}

// profile selects the plugins of the document's profiles.
func (r *resolver) profile(c *EndpointPickerConfig) *Profile {
	if handler := r.handler(); handler != nil {
		return r.disagg(c, handler)
	}
	return r.single(c, SingleProfileHandler)
}

// single selects the plugins of a document with one profile.
func (r *resolver) single(c *EndpointPickerConfig, handler string) *Profile {
	if len(c.SchedulingProfiles) > 1 {
		r.wrong("schedulingProfiles[1]", "keep one profile, or add "+DisaggProfileHandler, "is not supported: %s runs one profile", handler)
	}
	if len(c.SchedulingProfiles) > 0 {
		return r.selected(c, 0)
	}
	p := &Profile{}
	for _, name := range r.names {
		if in := r.instances[name]; in.kind.role == Filter || in.kind.role == Scorer || in.kind.role == Picker || in.kind.role == Cluster {
			r.add(p, in, 1, in.field)
		}
	}
	return r.choice(p)
}

// selected selects the plugins of a profile by its place.
func (r *resolver) selected(c *EndpointPickerConfig, at int) *Profile {
	p, refs := &Profile{}, c.SchedulingProfiles[at].Plugins
	of := fmt.Sprintf("schedulingProfiles[%d].plugins", at)
	if len(refs) > maxSelected {
		r.wrong(of, "remove some", "has %d plugins; at most %d are allowed", len(refs), maxSelected)
		refs = refs[:maxSelected]
	}
	for i, ref := range refs {
		field := fmt.Sprintf("%s[%d]", of, i)
		in := r.instances[ref.PluginRef]
		if in == nil {
			r.wrong(field+".pluginRef", "write the name of one of the plugins: "+strings.Join(r.names, ", "), "there is no plugin %q", ref.PluginRef)
			continue
		}
		weight := 1.0
		if ref.Weight != nil {
			weight = *ref.Weight
		}
		if weight < 0 || math.IsInf(weight, 0) || math.IsNaN(weight) {
			r.wrong(field+".weight", "write 0 or more", "must be at least 0, is %g", weight)
		}
		r.add(p, in, weight, field+".pluginRef")
	}
	return r.choice(p)
}

// choice completes a profile that names no picker.
func (r *resolver) choice(p *Profile) *Profile {
	p.Picker, p.MaxEndpoints = cmp.Or(p.Picker, r.onlyPicker(), MaxScorePicker), max(p.MaxEndpoints, 1)
	return p
}

// onlyPicker is the type of the document's picker that its profile does not name.
func (r *resolver) onlyPicker() string {
	for _, name := range r.names {
		if in := r.instances[name]; in.kind.role == Picker {
			return in.Type
		}
	}
	return ""
}

// add makes a plugin part of a profile.
func (r *resolver) add(p *Profile, in *instance, weight float64, field string) {
	p.Pages, p.Prompts, p.Sessions = p.Pages || in.kind.pages, p.Prompts || in.kind.prompts, p.Sessions || in.kind.sessions
	switch in.kind.role {
	case Filter:
		p.Filters = append(p.Filters, in.Instance)
	case Scorer:
		scorer := in.Instance
		scorer.Weight = weight
		p.Scorers = append(p.Scorers, scorer)
		if external, ok := in.Parameters.(*External); ok {
			p.External = append(p.External, external)
		}
		if prefix, ok := in.Parameters.(*PrefixCache); ok {
			from := r.instances[prefix.PrefixMatchInfoProducerName]
			p.Precise = p.Precise || from != nil && from.Type == PrecisePrefixProducer
		}
	case Cluster:
		r.cluster(p, in, weight, field)
	case Picker:
		if p.Picker != "" {
			r.wrong(field, "keep one of them", "the profile has a picker already: %s", p.Picker)
		}
		p.Picker = in.Type
		if named, ok := in.Parameters.(*pickerParameters); ok && named.MaxNumOfEndpoints != nil {
			p.MaxEndpoints = *named.MaxNumOfEndpoints
		}
	default:
		if in.kind.role != "" {
			r.problems = append(r.problems, Problem{Warning: true, Field: field, Problem: "has no effect: a " + string(in.kind.role) + " is not part of a profile", Fix: "remove it"})
		}
	}
}
