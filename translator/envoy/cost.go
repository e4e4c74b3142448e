package envoy

import (
	"fmt"
	"math"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	compositev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/composite/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/penstock-project/penstock/translator/model"
)

// Cost counts what Envoy builds on its main thread for a changed route configuration.
type Cost struct {
	Hosts        uint32
	Routes       uint32 // Envoy routes; at least one for each match
	Conditions   uint32 // conditions on headers, query parameters and cookies
	Changes      uint32 // changes of headers
	Answers      uint32 // routes with a direct response
	Forwards     uint32 // routes that forward requests
	Backends     uint32
	Mirrors      uint32
	Calls        uint32 // calls to pickers
	Filters      uint32 // filters that a route configures, such as external authorization
	Extensions   uint32 // configurations of any kind in a route
	Instructions uint32 // instructions of compiled regular expressions
	Bytes        uint32 // size of the encoded routes
}

// costs has the time that Envoy 1.40 needs for one of each part (docs/envoy.md, "Delivery").
var costs = []struct {
	name string
	time time.Duration
	part func(c *Cost) *uint32
}{
	{"hostnames", 12 * time.Microsecond, func(c *Cost) *uint32 { return &c.Hosts }},
	{"Envoy routes", 4500 * time.Nanosecond, func(c *Cost) *uint32 { return &c.Routes }},
	{"conditions", 1500 * time.Nanosecond, func(c *Cost) *uint32 { return &c.Conditions }},
	{"header changes", 1600 * time.Nanosecond, func(c *Cost) *uint32 { return &c.Changes }},
	{"answers", 3 * time.Microsecond, func(c *Cost) *uint32 { return &c.Answers }},
	{"forwarding routes", 6 * time.Microsecond, func(c *Cost) *uint32 { return &c.Forwards }},
	{"backends", 2 * time.Microsecond, func(c *Cost) *uint32 { return &c.Backends }},
	{"mirrors", 14 * time.Microsecond, func(c *Cost) *uint32 { return &c.Mirrors }},
	{"picker calls", 24 * time.Microsecond, func(c *Cost) *uint32 { return &c.Calls }},
	{"filters", 135 * time.Microsecond, func(c *Cost) *uint32 { return &c.Filters }},
	{"extensions", 4 * time.Microsecond, func(c *Cost) *uint32 { return &c.Extensions }},
	{"regular expression instructions", 2 * time.Microsecond, func(c *Cost) *uint32 { return &c.Instructions }},
	{"bytes", 4 * time.Nanosecond, func(c *Cost) *uint32 { return &c.Bytes }},
}

// Add returns the saturating sum.
func (c Cost) Add(o Cost) Cost {
	for _, cost := range costs {
		p := cost.part(&c)
		*p = uint32(min(uint64(*p)+uint64(*cost.part(&o)), math.MaxUint32))
	}
	return c
}

// Times returns n times c, saturating.
func (c Cost) Times(n int) Cost {
	for _, cost := range costs {
		p := cost.part(&c)
		*p = uint32(min(uint64(*p)*uint64(n), math.MaxUint32))
	}
	return c
}

// Time estimates Envoy's time for c.
func (c Cost) Time() (t time.Duration) {
	for _, cost := range costs {
		t += time.Duration(*cost.part(&c)) * cost.time
	}
	return t
}

// String lists the parts.
func (c Cost) String() string {
	var parts []string
	for _, cost := range costs {
		switch n := *cost.part(&c); n {
		case 0:
		case 1:
			parts = append(parts, "1 "+strings.TrimSuffix(cost.name, "s"))
		default:
			parts = append(parts, fmt.Sprint(n, " ", cost.name))
		}
	}
	return strings.Join(parts, ", ")
}

// CostOf returns a route's cost in one virtual host.
func CostOf(r *model.Route) (c Cost) {
	for _, route := range (&builder{}).routes(&model.VirtualHost{Host: "*", Routes: []model.Route{*r}}) {
		c = c.Add(routeCost(route))
	}
	return c
}

const plainer = 5

func routeCost(r *routev3.Route) Cost {
	c := Cost{Bytes: uint32(proto.Size(r))}
	var count func(msg proto.Message) error
	count = func(msg proto.Message) error {
		switch m := msg.(type) {
		case *anypb.Any:
			c.Extensions++
			inner, err := m.UnmarshalNew()
			if err != nil {
				return err
			}
			return walk(inner.ProtoReflect(), count)
		case *routev3.Route:
			c.Routes++
			c.Changes += uint32(len(m.RequestHeadersToRemove) + len(m.ResponseHeadersToRemove))
		case *routev3.WeightedCluster_ClusterWeight:
			c.Backends++
			c.Changes += uint32(len(m.RequestHeadersToRemove) + len(m.ResponseHeadersToRemove))
		case *routev3.HeaderMatcher, *routev3.QueryParameterMatcher, *routev3.CookieMatcher, *matcherv3.MetadataMatcher:
			c.Conditions++
		case *corev3.HeaderValueOption:
			c.Changes++
		case *routev3.DirectResponseAction:
			c.Answers++
		case *routev3.RouteAction:
			c.Forwards++
		case *routev3.RouteAction_RequestMirrorPolicy:
			c.Mirrors++
		case *extprocv3.ExtProcPerRoute:
			c.Calls++
		case *compositev3.CompositePerRoute:
			c.Filters++
		case *matcherv3.RegexMatcher:
			c.Instructions += programOf(m)
		}
		return nil
	}
	_ = walk(r.Match.ProtoReflect(), count)
	matching := c
	c = Cost{Bytes: c.Bytes}
	_ = walk(r.ProtoReflect(), count)
	c.Instructions = matching.Instructions + (c.Instructions-matching.Instructions)/plainer
	return c
}
