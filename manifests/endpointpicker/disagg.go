package endpointpicker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

const (
	DecodeFilter  = "decode-filter"
	PrefillFilter = "prefill-filter"
	EncodeFilter  = "encode-filter"

	DisaggProfileHandler       = "disagg-profile-handler"
	PDProfileHandler           = "pd-profile-handler"
	DataParallelProfileHandler = "data-parallel-profile-handler"

	PrefixBasedDecider      = "prefix-based-pd-decider"
	AlwaysPrefillDecider    = "always-disagg-pd-decider"
	AlwaysMultimodalDecider = "always-disagg-multimodal-decider"
)

// RoleLabel is the label with a server's roles, on its pod or ModelServers entry.
const RoleLabel = "llm-d.ai/role"

type roleFilter struct {
	roles     []string
	unlabeled bool // servers without the label pass
}

var roleFilters = map[string]roleFilter{
	DecodeFilter:  {[]string{"decode", "prefill-decode", "encode-prefill-decode", "both"}, true},
	PrefillFilter: {[]string{"prefill", "encode-prefill", "prefill-decode", "encode-prefill-decode", "both"}, false},
	EncodeFilter:  {[]string{"encode", "encode-prefill", "encode-prefill-decode"}, false},
}

// HasRole reports whether a server with these labels passes a filter by role.
func HasRole(filter string, labels map[string]string) bool {
	f := roleFilters[filter]
	role, ok := labels[RoleLabel]
	return !ok && f.unlabeled || ok && slices.Contains(f.roles, role)
}

// Disagg adds servers to a request: some encode its images, and one reads its prompt (prefill). The
// enclosing Profile chooses the server that writes the answer (decode).
type Disagg struct {
	Handler, HandlerType string // the profile handler
	Prefill, Encode      *Stage // nil if the stage is off
	// PrimaryPort is the port at which a pod receives requests for all of its data-parallel ranks;
	// 0: each rank has a separate port.
	PrimaryPort uint16
}

// Stage chooses additional servers for a request.
type Stage struct {
	*Profile
	Decider Decider
}

// Decider selects the requests that use a stage.
type Decider struct {
	// Always selects all requests, and Multimodal selects requests with media. If neither is set,
	// the limits below apply.
	Always, Multimodal bool
	// NonCachedTokens is the minimum number of prompt tokens that the decode server has not cached;
	// 0: no request uses the stage.
	NonCachedTokens int
	// PromptTokens is the minimum length of the prompt.
	PromptTokens int
}

// Wants reports whether a request uses the stage. tokens is the length of its prompt. cached is how
// many of the prompt's tokens the decode server has cached. media is whether the prompt has media.
func (d *Decider) Wants(tokens, cached int, media bool) bool {
	switch {
	case d.Always:
		return true
	case d.Multimodal:
		return media
	}
	return d.NonCachedTokens > 0 && tokens >= d.PromptTokens && tokens-cached >= d.NonCachedTokens
}

type prefixDecider struct {
	NonCachedTokens int `json:"nonCachedTokens"`
	PromptTokens    int `json:"promptTokens"`
}

func (p *prefixDecider) check() (out found) {
	for field, value := range map[string]int{"nonCachedTokens": p.NonCachedTokens, "promptTokens": p.PromptTokens} {
		out.reject(value < 0, field, "write a number of tokens", "must be at least 0, is %d", value)
	}
	if p.NonCachedTokens == 0 {
		out = append(out,
			Problem{Warning: true, Field: "nonCachedTokens", Problem: "is 0: no request is disaggregated",
				Fix: "write the number of tokens from which on it is, such as 512"})
	}
	return out
}

type handlerParameters interface {
	stages() stageNames
}

type stageNames struct {
	decode, prefill, encode       string // names of profiles
	prefillDecider, encodeDecider string // "": the stage is off
	prefillFirst                  bool   // each request uses the stage prefill
	primaryPort                   int
	field                         string
}

type disaggParameters struct {
	StageOrder string `json:"stageOrder"`
	Profiles   struct {
		Decode  string `json:"decode"`
		Prefill string `json:"prefill"`
		Encode  string `json:"encode"`
	} `json:"profiles"`
	Deciders struct {
		Prefill string `json:"prefill"`
		Encode  string `json:"encode"`
	} `json:"deciders"`

	DecodeProfile            string `json:"decodeProfile"`
	PrefillProfile           string `json:"prefillProfile"`
	EncodeProfile            string `json:"encodeProfile"`
	PrefillDeciderPluginName string `json:"prefillDeciderPluginName"`
	EncodeDeciderPluginName  string `json:"encodeDeciderPluginName"`
	DeciderPluginName        string `json:"deciderPluginName"`
}

const (
	decodeFirst  = "decode-first"
	prefillFirst = "prefill-first"
)

func (p *disaggParameters) check() (out found) {
	former := p.DecodeProfile + p.PrefillProfile + p.EncodeProfile + p.PrefillDeciderPluginName +
		p.EncodeDeciderPluginName + p.DeciderPluginName
	present := p.Profiles.Decode + p.Profiles.Prefill + p.Profiles.Encode + p.Deciders.Prefill + p.Deciders.Encode
	out.reject(former != "" && present != "", "", "write profiles and deciders alone", "has fields of two forms")
	orders := []string{"", decodeFirst, prefillFirst}
	out.reject(!slices.Contains(orders, strings.ToLower(p.StageOrder)), "stageOrder",
		"write one of them, or remove it for "+decodeFirst, "must be %s or %s, is %q", decodeFirst, prefillFirst,
		p.StageOrder)
	s := p.stages()
	out.reject(s.prefillFirst && s.prefillDecider != "", s.field+"prefill", "remove one of them",
		"is not possible with stageOrder %s, in which each request has prefill", prefillFirst)
	return out
}

func (p *disaggParameters) stages() stageNames {
	return stageNames{
		decode:         cmp.Or(p.Profiles.Decode, p.DecodeProfile, "decode"),
		prefill:        cmp.Or(p.Profiles.Prefill, p.PrefillProfile, "prefill"),
		encode:         cmp.Or(p.Profiles.Encode, p.EncodeProfile, "encode"),
		prefillDecider: cmp.Or(p.Deciders.Prefill, p.PrefillDeciderPluginName, p.DeciderPluginName),
		encodeDecider:  cmp.Or(p.Deciders.Encode, p.EncodeDeciderPluginName),
		prefillFirst:   strings.EqualFold(p.StageOrder, prefillFirst),
		field:          "deciders.",
	}
}

// pd-profile-handler is the predecessor of disagg-profile-handler.
type pdParameters struct {
	DecodeProfile     string `json:"decodeProfile"`
	PrefillProfile    string `json:"prefillProfile"`
	DeciderPluginName string `json:"deciderPluginName"`
	PrimaryPort       int    `json:"primaryPort"`

	PrefixPluginType            string `json:"prefixPluginType"`
	PrefixPluginName            string `json:"prefixPluginName"`
	PrefixMatchInfoProducerName string `json:"prefixMatchInfoProducerName"`

	// fields of releases without deciders
	Threshold     *float64 `json:"threshold"`
	HashBlockSize *int     `json:"hashBlockSize"`
}

func (p *pdParameters) check() (out found) {
	if p.Threshold != nil {
		out.reject(*p.Threshold < 0, "threshold", "write a number of tokens", "must be at least 0, is %g", *p.Threshold)
	}
	out.noEffect("hashBlockSize", p.HashBlockSize != nil, "Penstock's index has one schedule of blocks")
	return append(out, checkPrimaryPort(p.PrimaryPort)...)
}

func (p *pdParameters) stages() stageNames {
	return stageNames{decode: cmp.Or(p.DecodeProfile, "decode"), prefill: cmp.Or(p.PrefillProfile, "prefill"),
		prefillDecider: cmp.Or(p.DeciderPluginName, PrefixBasedDecider), primaryPort: p.PrimaryPort}
}

func (p *pdParameters) former() Decider {
	if p.Threshold == nil || *p.Threshold == 0 {
		return Decider{Always: true}
	}
	return Decider{NonCachedTokens: max(1, int(*p.Threshold))}
}

type dataParallelParameters struct {
	PrimaryPort int `json:"primaryPort"`
}

func (p *dataParallelParameters) check() found { return checkPrimaryPort(p.PrimaryPort) }

func (p *dataParallelParameters) stages() stageNames { return stageNames{primaryPort: p.PrimaryPort} }

func checkPrimaryPort(port int) (out found) {
	out.reject(port < 0 || port > 65535, "primaryPort", "write one of the InferencePool's targetPorts",
		"must be a port, is %d", port)
	return out
}

func (r *resolver) handler() *instance {
	var first *instance
	for _, name := range r.names {
		in := r.instances[name]
		if in.kind.role != Handler || in.kind.unknown {
			continue
		}
		if first != nil {
			r.wrong(in.field+".type", "keep one of them", "the document has a profile handler already: %s", first.Name)
			continue
		}
		first = in
	}
	if first == nil {
		return nil
	}
	if _, ok := first.Parameters.(handlerParameters); !ok && first.Type != HeaderProfileHandler {
		return nil
	}
	return first
}

func (r *resolver) disagg(c *EndpointPickerConfig, in *instance) *Profile {
	names := in.Parameters.(handlerParameters).stages()
	d := &Disagg{Handler: in.Name, HandlerType: in.Type, PrimaryPort: uint16(names.primaryPort)}
	if names.decode == "" { // the only profile, of any name
		p := r.single(c, in.Type)
		p.Disagg = d
		return p
	}
	at := func(name string) int {
		return slices.IndexFunc(c.SchedulingProfiles,
			func(p SchedulingProfile) bool { return p.Name == name && name != "" })
	}
	for i, p := range c.SchedulingProfiles {
		field := fmt.Sprintf("schedulingProfiles[%d].name", i)
		switch {
		case at(p.Name) < i && p.Name != "":
			r.wrong(field, "give one of them another name", "%q is the name of another profile too", p.Name)
		case p.Name == names.decode || p.Name == names.prefill || p.Name == names.encode && names.encode != "":
		default:
			r.problems.noEffect(field, true, in.Type+" has no profile of this name")
		}
	}
	decode := &Profile{}
	if i := at(names.decode); i >= 0 {
		decode = r.selected(c, i)
	} else {
		r.wrong("schedulingProfiles", "add one with the filter "+DecodeFilter, "has no profile %q, which %s needs",
			names.decode, in.Type)
	}
	decode.Disagg = d
	d.Prefill = r.stage(c, in, names.prefill, names.prefillDecider, names.field+"prefill", names.prefillFirst, at)
	d.Encode = r.stage(c, in, names.encode, names.encodeDecider, names.field+"encode", false, at)
	for _, s := range []*Stage{d.Prefill, d.Encode} {
		if s == nil {
			continue
		}
		decode.Pages, decode.Prompts, decode.Precise = decode.Pages || s.Pages,
			decode.Prompts || s.Prompts || !s.Decider.Always, decode.Precise || s.Precise
	}
	return decode
}

func (r *resolver) stage(c *EndpointPickerConfig, handler *instance, profile, decider, field string, always bool,
	at func(string) int) *Stage {
	i := at(profile)
	switch {
	case decider == "" && !always:
		if i >= 0 {
			r.warn(fmt.Sprintf("schedulingProfiles[%d]", i), "has no effect: "+handler.Type+" has no decider for it",
				"name a decider in its parameters")
		}
		return nil
	case i < 0 && decider != "":
		r.warn(handler.field+".parameters",
			fmt.Sprintf("the decider %s has no effect: there is no profile %q", decider, profile), "add the profile")
		return nil
	case i < 0:
		return nil
	}
	s := &Stage{Profile: r.selected(c, i), Decider: Decider{Always: always}}
	if len(s.External) > 0 {
		r.wrong(fmt.Sprintf("schedulingProfiles[%d]", i), "use it in the profile of decode",
			"%s is not supported for further servers", ExternalScorer)
	}
	if always {
		return s
	}
	switch in := r.instances[decider]; {
	case in == nil && handler.Type == PDProfileHandler && handler.Parameters.(*pdParameters).DeciderPluginName == "":
		s.Decider = handler.Parameters.(*pdParameters).former()
		const problem = "there is no decider, so prefill is for prompts of which %d tokens or more are not cached"
		r.warn(handler.field+".parameters", fmt.Sprintf(problem, s.Decider.NonCachedTokens),
			"use "+DisaggProfileHandler+", and name a decider")
	case in == nil || in.kind.role != Decision || in.kind.unknown:
		r.wrong(handler.field+".parameters", "name a plugin of type "+strings.Join(Types(Decision), ", "),
			"%q is not the name of a decider", decider)
	case in.Type == AlwaysPrefillDecider:
		s.Decider.Always = true
	case in.Type == AlwaysMultimodalDecider:
		s.Decider.Multimodal = true
	default:
		p := in.Parameters.(*prefixDecider)
		s.Decider.NonCachedTokens, s.Decider.PromptTokens = p.NonCachedTokens, p.PromptTokens
	}
	return s
}
