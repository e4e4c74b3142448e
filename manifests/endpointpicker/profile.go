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

const (
	maxPlugins  = 64
	maxSelected = 32 // maximum number of plugins of a profile
)

// Profile is the strategy in a document. It is immutable.
type Profile struct {
	Filters []Instance // in this order
	Scorers []Instance
	Picker  string // type of the picker
	// Pages, Prompts, Sessions, Latency and Headers mean that a plugin reads metrics pages,
	// prompts, sessions, predictions of latency, or request headers.
	Pages, Prompts, Sessions bool
	Latency, Headers         bool
	// SessionHeaders and SessionCookie name a request's session, in addition to the pool's
	// settings. AgentHeaders name the fairness ID of requests without a fairness header.
	SessionHeaders, AgentHeaders []string
	SessionCookie                string
	Admission                    Admission
	Source                       PageSource
	// ByHeader is nil if there is only one profile.
	ByHeader *ByHeader
	// External are the scorers in other processes, in the order of Scorers.
	External []*External
	// Precise means that prefixes come from KV events.
	Precise bool
	// Flow is nil if flow control is off.
	Flow *Flow
	// Disagg is nil if one server serves each request.
	Disagg *Disagg
	// Dynamo is nil if requests do not name Dynamo workers.
	Dynamo *Dynamo
	// Clusters is nil in a document for pools.
	Clusters *Clusters
	// MaxEndpoints is maxNumOfEndpoints of the picker plugin, at least 1. Only the profile of the
	// stage encode uses it.
	MaxEndpoints int
}

// Instance is a plugin with its parameters.
type Instance struct {
	Name, Type string
	Weight     float64 // of a scorer
	Parameters any     // such as *LabelSelector; nil for a type without parameters
}

// Problem is an error or a Warning about a document.
type Problem struct {
	Warning bool   // the document works without the field
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

// Resolve returns the profile of a document, or nil if the document is invalid. It also returns the
// problems, sorted by field.
func Resolve(c *EndpointPickerConfig) (*Profile, []Problem) {
	r := resolver{instances: map[string]*instance{}, all: len(c.SchedulingProfiles) == 0}
	r.unsupported(c)
	r.plugins(c.Plugins)
	r.producers()
	p := r.profile(c)
	p.Flow, p.Dynamo = r.flow(c), r.dynamo()
	r.identities(p)
	r.admission(p)
	p.Source = r.pageSource()
	p.Prompts = p.Prompts || p.Dynamo != nil // workers are also named in bodies
	r.alone(p)
	slices.SortStableFunc(r.problems, func(a, b Problem) int { return cmp.Compare(a.Field, b.Field) })
	if Invalid(r.problems) {
		return nil, r.problems
	}
	return p, r.problems
}

type resolver struct {
	instances map[string]*instance
	names     []string // in the document's order
	problems  found
	// strict makes unknown types and parameters errors, for a PoolPolicy.
	strict bool
	// all means that the document has no profile, so each filter, scorer and picker applies.
	all bool
}

type instance struct {
	Instance
	kind  kind
	field string
}

func (r *resolver) wrong(field, fix, problem string, args ...any) {
	r.problems.reject(true, field, fix, problem, args...)
}

func (r *resolver) unsupported(c *EndpointPickerConfig) {
	r.problems.noEffect("dataLayer", c.DataLayer != nil, readsPages)
	r.problems.noEffect("requestHandler", c.RequestHandler != nil, readsRequests)
	r.problems.noEffect("parser", c.Parser != nil, readsRequests)
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
		k, known := kinds[in.Type]
		u, upstream := upstreamKinds[in.Type]
		switch {
		case known:
			in.kind = k
			r.parameters(in, list[i].Parameters)
		case upstream:
			r.upstream(in, &u, list[i].Parameters)
		default:
			r.unknown(in)
		}
		if r.instances[in.Name] != nil {
			r.wrong(field+".name", "give one of them another name", "%q is the name of another plugin too", in.Name)
			continue
		}
		r.instances[in.Name] = in
		r.names = append(r.names, in.Name)
	}
}

func (r *resolver) upstream(in *instance, u *upstreamKind, raw *runtime.RawExtension) {
	in.kind = kind{role: u.role, silent: true, parameters: u.parameters}
	switch {
	case u.invalid || r.strict:
		r.wrong(in.field+".type", cmp.Or(u.fix, as(u.as), "remove it"),
			"%q is not a type of plugins that Penstock has: %s", in.Type, u.why)
		return
	case u.as != "":
		r.warn(in.field, in.Type+" works as "+u.as+": "+u.why, as(u.as))
		in.Type, in.kind = u.as, kinds[u.as]
		if u.parameters != nil {
			in.kind.parameters = u.parameters
		} else if in.kind.role != Filter { // the parameters of the types differ
			raw = nil
		}
	default:
		r.problems.noEffect(in.field, true, u.why)
	}
	if in.kind.parameters == nil {
		return
	}
	r.parameters(in, raw)
	if other, ok := in.Parameters.(interface{ converted() parameters }); ok {
		in.Parameters = other.converted()
	}
}

func as(name string) string {
	if name == "" {
		return ""
	}
	return "use " + name
}

// unknown resolves a type that is in no table; a newer release of llm-d's router may have it. The
// plugin has no effect. The method `add` decides whether the document is valid without it.
func (r *resolver) unknown(in *instance) {
	in.kind = kind{role: guessed(in.Type), unknown: true, silent: true}
	near := misspelled(in.Type)
	switch {
	case r.strict, in.Type == "", in.kind.role == "" && near == "" && r.all:
		r.wrong(in.field+".type", "use one of "+strings.Join(Types(), ", "),
			"%q is not a type of plugins that Penstock has", in.Type)
	case near != "":
		r.wrong(in.field+".type", "did you mean "+near+"?", "%q is not a type of plugins that Penstock has", in.Type)
	default:
		what := cmp.Or(string(in.kind.role), "plugin")
		r.warn(in.field+".type", fmt.Sprintf("has no effect: Penstock has no %s %q", what, in.Type),
			strings.TrimSuffix("remove it, or use one of "+strings.Join(Types(in.kind.role), ", "), ", or use one of "))
	}
}

// parameters decodes a plugin's parameters over the defaults.
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
		err := d.Decode(p)
		if name, ok := unknownField(err); ok && r.newer(in, name) && json.Unmarshal(raw.Raw, p) == nil {
			r.warn(field, fmt.Sprintf("%q has no effect: Penstock has no such parameter of %s", name, in.Type),
				"remove it")
		} else if err != nil {
			r.wrong(field, "correct the field, or remove it", "is not valid for %s: %s", in.Type,
				strings.TrimPrefix(err.Error(), "json: "))
			return
		}
	}
	for _, found := range p.check() {
		found.Field = strings.TrimSuffix(field+"."+found.Field, ".")
		r.problems = append(r.problems, found)
	}
}

func unknownField(err error) (name string, ok bool) {
	if err == nil {
		return "", false
	}
	name, ok = strings.CutPrefix(err.Error(), `json: unknown field "`)
	return strings.TrimSuffix(name, `"`), ok
}

// newer reports whether an unknown parameter may belong to a newer release of llm-d's router, and
// is not misspelled. It is false for filters: without the parameter, requests could go to wrong
// servers.
func (r *resolver) newer(in *instance, name string) bool {
	if r.strict || in.kind.role == Filter {
		return false
	}
	known := map[string]any{}
	if text, err := json.Marshal(in.kind.parameters()); err != nil || json.Unmarshal(text, &known) != nil {
		return false
	}
	for other := range known {
		if distance(strings.ToLower(name), strings.ToLower(other)) < 3 {
			return false
		}
	}
	return true
}

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
			continue // without a producer in the document, defaults apply
		}
		fits := kind
		if kind == ApproximatePrefixProducer {
			fits += " or " + PrecisePrefixProducer
		}
		if p := r.instances[named]; p != nil && p.kind.unknown && p.kind.role == Producer {
			continue // the plugin has a Warning
		} else if p == nil || p.Type != kind && (kind != ApproximatePrefixProducer || p.Type != PrecisePrefixProducer) {
			r.wrong(in.field+".parameters."+field, "name a plugin of type "+fits, "%q is not the name of such a plugin",
				named)
		}
	}
}

func (r *resolver) profile(c *EndpointPickerConfig) *Profile {
	if handler := r.handler(); handler != nil {
		if handler.Type == HeaderProfileHandler {
			return r.byHeader(c, handler)
		}
		return r.disagg(c, handler)
	}
	return r.single(c, SingleProfileHandler)
}

func (r *resolver) single(c *EndpointPickerConfig, handler string) *Profile {
	if len(c.SchedulingProfiles) > 1 {
		r.wrong("schedulingProfiles[1]", "keep one profile, or add "+DisaggProfileHandler,
			"is not supported: %s runs one profile", handler)
	}
	if len(c.SchedulingProfiles) > 0 {
		return r.selected(c, 0)
	}
	p := &Profile{}
	for _, name := range r.names {
		if in := r.instances[name]; in.kind.role == Filter || in.kind.role == Scorer || in.kind.role == Picker ||
			in.kind.role == Cluster {
			r.add(p, in, 1, in.field)
		}
	}
	r.scored(p, r.names, "plugins")
	return r.choice(p)
}

// A profile in which no scorer has an effect would send requests to random servers.
func (r *resolver) scored(p *Profile, names []string, field string) {
	if len(p.Scorers) > 0 || p.Clusters != nil {
		return
	}
	for _, name := range names {
		in := r.instances[name]
		if in == nil || in.kind.role != Scorer || !in.kind.silent {
			continue
		}
		const random = "the profile has no other scorer, and would choose servers at random"
		if fix := "add one, such as " + QueueScorer; in.kind.unknown {
			r.wrong(field, fix, "%q is not a type of plugins that Penstock has: %s", in.Type, random)
		} else {
			r.warn(field, in.Type+" has no effect: "+random, fix)
		}
		return
	}
}

func (r *resolver) selected(c *EndpointPickerConfig, at int) *Profile {
	p, refs := &Profile{}, c.SchedulingProfiles[at].Plugins
	list := fmt.Sprintf("schedulingProfiles[%d].plugins", at)
	if len(refs) > maxSelected {
		r.wrong(list, "remove some", "has %d plugins; at most %d are allowed", len(refs), maxSelected)
		refs = refs[:maxSelected]
	}
	for i, ref := range refs {
		field := fmt.Sprintf("%s[%d]", list, i)
		in := r.instances[ref.PluginRef]
		if in == nil {
			r.wrong(field+".pluginRef", "write the name of one of the plugins: "+strings.Join(r.names, ", "),
				"there is no plugin %q", ref.PluginRef)
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
	names := make([]string, len(refs))
	for i := range refs {
		names[i] = refs[i].PluginRef
	}
	r.scored(p, names, list)
	return r.choice(p)
}

func (r *resolver) choice(p *Profile) *Profile {
	p.Picker, p.MaxEndpoints = cmp.Or(p.Picker, r.onlyPicker(), MaxScorePicker), max(p.MaxEndpoints, 1)
	return p
}

func (r *resolver) onlyPicker() string {
	for _, name := range r.names {
		if in := r.instances[name]; in.kind.role == Picker && !in.kind.unknown {
			return in.Type
		}
	}
	return ""
}

func (r *resolver) add(p *Profile, in *instance, weight float64, field string) {
	if in.kind.silent {
		if in.kind.unknown && (in.kind.role == Filter || in.kind.role == "") {
			r.wrong(field, "remove it, and select the servers by "+LabelSelectorFilter+", or by the pool",
				"Penstock has no plugin %q, and without it requests may go to any server", in.Type)
		}
		return
	}
	p.reads(&in.kind)
	switch in.kind.role {
	case Filter:
		p.Filters = append(p.Filters, in.Instance)
		if a, ok := in.Parameters.(*PrefixAffinity); ok {
			p.Precise = p.Precise || r.precise(a.PrefixMatchInfoProducerName)
			p.Latency = p.Latency || a.Predicts()
		}
	case Scorer:
		scorer := in.Instance
		scorer.Weight = weight
		p.Scorers = append(p.Scorers, scorer)
		if external, ok := in.Parameters.(*External); ok {
			p.External = append(p.External, external)
		}
		if prefix, ok := in.Parameters.(*PrefixCache); ok {
			p.Precise = p.Precise || prefix.Precise || r.precise(prefix.PrefixMatchInfoProducerName)
		}
		if length, ok := in.Parameters.(*ContextLength); ok && length.EnableFiltering {
			p.Filters = append(p.Filters, in.Instance)
		}
		p.Headers = p.Headers || in.Type == HeaderLabelScorer
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
	case Admitter: // the method admission adds the plugin
	case Policy:
		if c, ok := in.Parameters.(*Concurrency); ok && c.Requests() > 0 {
			p.Filters = append(p.Filters, in.Instance)
			return
		}
		r.notPart(in, field)
	default:
		r.notPart(in, field)
	}
}

func (r *resolver) precise(producer string) bool {
	from := r.instances[producer]
	return from != nil && from.Type == PrecisePrefixProducer
}

func (p *Profile) reads(k *kind) {
	p.Pages, p.Prompts, p.Sessions = p.Pages || k.pages, p.Prompts || k.prompts, p.Sessions || k.sessions
	p.Latency = p.Latency || k.latency
}

func (r *resolver) notPart(in *instance, field string) {
	r.warn(field, "has no effect: a "+string(in.kind.role)+" is not part of a profile", "remove it")
}
