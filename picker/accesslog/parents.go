package accesslog

import (
	"net/netip"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
)

// ParentsLog is the name of the log of what gateways of other clusters answer. (Those of leases have a Gateway's name, with a slash, or that
// of the hops.) All answers with 404 are in it, and of the others one in OtherAnswers.
const (
	ParentsLog   = "parents"
	OtherAnswers = 16
)

// maxText bounds the texts of an Answer, in bytes: a longer one is none of ours.
const maxText = 1024

// Answer is the answer of a gateway of another cluster to a request.
type Answer struct {
	Gateway string         // whose key the call of the access log has, "namespace/name"; "" if calls need none
	Cluster string         // the Envoy cluster that the request went to
	At      netip.AddrPort // of the gateway that answered; the zero value if Envoy does not report it
	Host    string         // that the gateway was asked for
	Status  int
}

// answer converts an entry. It returns false for what no gateway has answered.
func answer(logged *datav3.HTTPAccessLogEntry) (Answer, bool) {
	common, response := logged.GetCommonProperties(), logged.GetResponse()
	a := Answer{
		Cluster: common.GetUpstreamCluster(),
		At:      at(common.GetUpstreamRemoteAddress().GetSocketAddress()),
		Host:    logged.GetRequest().GetAuthority(),
		Status:  int(response.GetResponseCode().GetValue()),
	}
	return a, response.GetResponseCodeDetails() == "via_upstream" && a.Cluster != "" && len(a.Cluster) <= maxText && len(a.Host) <= maxText
}

func at(a *corev3.SocketAddress) netip.AddrPort {
	ip, err := netip.ParseAddr(a.GetAddress())
	if err != nil || a.GetPortValue() > 1<<16-1 {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(a.GetPortValue()))
}
