package gatewayapi

import (
	"fmt"
	"slices"

	"k8s.io/utils/ptr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/translator/model"
)

func (b *ruleBuilder) stream(name *gatewayv1.SectionName, specs []gatewayv1.BackendRef, i int) {
	field := fmt.Sprintf("spec.rules[%d]", i)
	if i > 0 {
		b.problem(field, gatewayv1.RouteReasonUnsupportedValue,
			"rules cannot distinguish "+b.carried()+": only the first rule counts", "write a route for it")
		return
	}
	rule := model.Rule{Index: i, Name: string(ptr.Deref(name, ""))}
	refs := make([]gatewayv1.HTTPBackendRef, len(specs))
	for i := range specs {
		refs[i].BackendRef = specs[i]
	}
	shares := b.shares(refs, nil, field)
	for _, s := range shares { // clusters of UDP backends depend on the listeners
		if b.datagrams() {
			break
		}
		for _, c := range s.clusters {
			for _, p := range b.out.Places {
				b.out.Clusters = append(b.out.Clusters, streamCluster(c, p.Passthrough))
			}
		}
	}
	rule.Action.Forward = &model.Forward{Backends: weigh(shares)}
	b.out.Rules = append(b.out.Rules, rule)
}

// Stream returns the filter chain of one host of a TCP or TLS listener, or the stream of a UDP
// listener. attached has at most one route for the host. The result is nil if neither the listener
// nor a route has the host.
func Stream(gw *model.Gateway, chain, host string, attached []*model.Attachment) *model.Stream {
	i := slices.IndexFunc(gw.Listeners, func(l *model.Listener) bool { return l.Chain == chain && l.Stream() })
	if i < 0 || len(attached) == 0 && gw.Listeners[i].Hostname != host {
		return nil
	}
	l := gw.Listeners[i]
	out := &model.Stream{Name: streamName(l, host), TLS: l.ByName()}
	if l.ByName() && host != "*" {
		out.ServerName = host
	}
	if len(attached) == 0 {
		return out
	}
	a := attached[0]
	out.Secrets = l.Secrets
	out.Owners = append(out.Owners, a.Route)
	if len(a.Rules) > 0 && a.Rules[0].Action.Forward != nil {
		out.Backends = slices.Clone(a.Rules[0].Action.Forward.Backends)
		for i := range out.Backends {
			out.Backends[i].Cluster = streamCluster(out.Backends[i].Cluster, l.Passthrough)
		}
	}
	return out
}

func streamName(l *model.Listener, host string) string {
	if l.Datagrams() {
		return model.DatagramName(l.Port)
	}
	return model.StreamName(l.ByName(), l.Port, host)
}

// DatagramListener returns the UDP listener of a cluster, or nil if the listener takes no traffic.
func DatagramListener(gw *model.Gateway, id model.ClusterID) *model.Listener {
	for _, l := range gw.Listeners {
		if l.Datagrams() && l.Chain != "" && int32(l.Port) == id.Port {
			return l
		}
	}
	return nil
}

// DatagramClusters returns the clusters of a Gateway's UDP listeners.
func DatagramClusters(gw *model.Gateway) (out []model.ClusterID) {
	for _, l := range gw.Listeners {
		if l.Datagrams() && l.Chain != "" {
			out = append(out, model.DatagramCluster(gw.Ref.Namespace, gw.Ref.Name, l.Port))
		}
	}
	return out
}

func streamCluster(tcp model.ClusterID, passthrough bool) model.ClusterID {
	if tcp.IsZero() || !passthrough {
		return tcp
	}
	return tcp.WithKind(model.PassthroughKind)
}
