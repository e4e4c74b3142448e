package xdstest

import (
	"bytes"
	"fmt"
	"net/netip"
	"regexp"
	"strings"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/penstock-project/penstock/xds/resource"
)

// If whole is set, Envoy applies no resource of the response.
type verdict struct {
	text  string
	whole bool
}

func (c FakeConfig) judge(ref resource.Ref, msg any) *verdict {
	if c.Rejects != nil {
		if detail := c.Rejects(ref); detail != "" {
			return &verdict{text: detail}
		}
	}
	return judge(msg)
}

// judge finds the errors that tests make on purpose.
func judge(msg any) *verdict {
	switch m := msg.(type) {
	case *clusterv3.Cluster:
		if m.GetConnectTimeout() != nil && m.GetConnectTimeout().AsDuration() <= 0 {
			return &verdict{whole: true, text: fmt.Sprintf("goo.gle/debugproto name: %q connect_timeout {}: "+
				"Proto constraint validation failed (ClusterValidationError.ConnectTimeout: value must be "+
				"greater than 0s)", m.GetName())}
		}
		if name := unknownPolicy(m); name != "" {
			return &verdict{text: fmt.Sprintf(
				"cluster: didn't find a registered load balancer factory implementation for cluster: "+
					"'%s' with names from [%s]", m.GetName(), name)}
		}
	case *endpointv3.ClusterLoadAssignment:
		for _, group := range m.GetEndpoints() {
			for _, e := range group.GetLbEndpoints() {
				a := e.GetEndpoint().GetAddress().GetSocketAddress().GetAddress()
				if _, err := netip.ParseAddr(a); a != "" && err != nil {
					return &verdict{
						whole: true, text: "malformed IP address: " + a +
							". Consider setting resolver_name or setting cluster type to 'STRICT_DNS' or 'LOGICAL_DNS'",
					}
				}
			}
		}
	case *listenerv3.Listener:
		if m.GetAddress() == nil && m.GetInternalListener() == nil {
			return &verdict{text: fmt.Sprintf("error adding listener named '%s': address is necessary", m.GetName())}
		}
	case *routev3.RouteConfiguration:
		return judgeRoutes(m)
	case *tlsv3.Secret:
		check := m.GetValidationContext().GetCustomValidatorConfig().GetTypedConfig()
		if bytes.Contains(m.GetTlsCertificate().GetCertificateChain().GetInlineBytes(), []byte(BadPEM)) ||
			bytes.Contains(check.GetValue(), []byte(BadPEM)) {
			return &verdict{whole: true, text: "Failed to load certificate chain from <inline>"}
		}
	}
	return nil
}

// BadPEM marks certificates that the fake rejects.
const BadPEM = "BAD"

func unknownPolicy(c *clusterv3.Cluster) string {
	for _, p := range c.GetLoadBalancingPolicy().GetPolicies() {
		if name := p.GetTypedExtensionConfig().GetName(); !strings.HasPrefix(name, "envoy.load_balancing_policies.") {
			return name
		}
	}
	return ""
}

func judgeRoutes(rc *routev3.RouteConfiguration) *verdict {
	domains := map[string]bool{}
	for _, vh := range rc.GetVirtualHosts() {
		for _, d := range vh.GetDomains() {
			if domains[d] {
				return &verdict{
					whole: true,
					text: fmt.Sprintf(
						"Only unique values for domains are permitted. Duplicate entry of domain %s in route %s", d,
						rc.GetName()),
				}
			}
			domains[d] = true
		}
		for _, r := range vh.GetRoutes() {
			if re := r.GetMatch().GetSafeRegex().GetRegex(); re != "" {
				if _, err := regexp.Compile(re); err != nil {
					return &verdict{whole: true, text: "missing ): " + re}
				}
			}
			if w := r.GetRoute().GetWeightedClusters(); w != nil {
				sum := uint32(0)
				for _, c := range w.GetClusters() {
					sum += c.GetWeight().GetValue()
				}
				if sum == 0 {
					return &verdict{whole: true, text: "Sum of weights in the weighted_cluster must be greater than 0."}
				}
			}
		}
	}
	return nil
}

func partial(t resource.Type, names []string, verdicts map[string]*verdict) string {
	kind := map[resource.Type]string{resource.Cluster: "cluster", resource.Listener: "listener"}[t]
	var texts []string
	for _, n := range names {
		texts = append(texts, verdicts[n].text)
	}
	return fmt.Sprintf("Error adding/updating %s(s) %s: %s", kind, strings.Join(names, ", "), strings.Join(texts, "\n"))
}

func decode[M proto.Message](body *anypb.Any, into M) M {
	if body != nil {
		_ = proto.Unmarshal(body.GetValue(), into)
	}
	return into
}

func nameOf(t resource.Type, body *anypb.Any) string {
	switch t {
	case resource.Secret:
		return decode(body, &tlsv3.Secret{}).GetName()
	case resource.Endpoints:
		return decode(body, &endpointv3.ClusterLoadAssignment{}).GetClusterName()
	case resource.Cluster:
		return decode(body, &clusterv3.Cluster{}).GetName()
	case resource.Listener:
		return decode(body, &listenerv3.Listener{}).GetName()
	}
	return decode(body, &routev3.RouteConfiguration{}).GetName()
}

func hashOf(body *anypb.Any) string {
	return resource.FromParts(0, "", resource.NewPart(body.GetValue(), nil, nil)).Version
}
