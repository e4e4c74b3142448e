package endpointpicker

import (
	"fmt"
	"strings"
)

type headerProfile struct {
	HeaderName     string `json:"headerName"`
	DefaultProfile string `json:"defaultProfile"`
}

func (p *headerProfile) check() (out found) {
	out.header("headerName", p.HeaderName)
	return out
}

// ByHeader chooses a profile by a request header.
type ByHeader struct {
	Header string // in lower case
	// Default is the profile of requests without the header.
	Default  string
	Profiles map[string]*Profile
}

// byHeader returns a profile with the inputs of all the document's profiles.
func (r *resolver) byHeader(c *EndpointPickerConfig, in *instance) *Profile {
	if len(c.SchedulingProfiles) < 2 {
		return r.single(c, in.Type)
	}
	h := in.Parameters.(*headerProfile)
	by := &ByHeader{Header: strings.ToLower(h.HeaderName), Default: h.DefaultProfile, Profiles: map[string]*Profile{}}
	all := &Profile{}
	for i, p := range c.SchedulingProfiles {
		field := fmt.Sprintf("schedulingProfiles[%d]", i)
		if by.Profiles[p.Name] != nil || p.Name == "" {
			r.wrong(field+".name", "give each profile a name of its own",
				"%q is empty, or the name of another profile too", p.Name)
			continue
		}
		own := r.selected(c, i)
		if len(own.External) > 0 {
			r.wrong(field, "use a pool for each profile", "%s is not supported beside %s", ExternalScorer, in.Type)
		}
		by.Profiles[p.Name] = own
		all.merge(own)
	}
	if by.Profiles[by.Default] == nil {
		names := make([]string, len(c.SchedulingProfiles))
		for i, p := range c.SchedulingProfiles {
			names[i] = p.Name
		}
		r.warn(in.field+".parameters.defaultProfile",
			fmt.Sprintf("there is no profile %q, so requests without the header get %s", by.Default, names[0]),
			"name one of the profiles: "+strings.Join(names, ", "))
		by.Default = names[0]
	}
	all.ByHeader = by
	first := by.Profiles[by.Default]
	if first != nil {
		all.Filters, all.Scorers = first.Filters, first.Scorers
		all.Picker, all.MaxEndpoints = first.Picker, first.MaxEndpoints
	}
	return r.choice(all)
}

func (p *Profile) merge(other *Profile) {
	p.Pages, p.Prompts, p.Sessions = p.Pages || other.Pages, p.Prompts || other.Prompts, p.Sessions || other.Sessions
	p.Precise, p.Latency, p.Headers = p.Precise || other.Precise, p.Latency || other.Latency, p.Headers || other.Headers
}
