package accesslog

import (
	"net/netip"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"

	"github.com/penstock-project/penstock/discovery/objectid"
)

// MembersLog is the name of the log of requests to exporting clusters of imports that have no
// lease. (Those of leases have a Gateway's name, with a slash, or that of the hops.)
const MembersLog = "members"

// declinedHeader marks an answer of a hop, or of a member's gateway, that no server has begun
// (docs/envoy.md). idHeader has the ID that another cluster's gateway has given to the request.
const (
	declinedHeader = "penstock-peer-refused"
	idHeader       = "x-request-id"
)

// maxText bounds the texts of an Attempt, in bytes: an entry with a longer one is none of ours.
const maxText = 1024

// maxDetails bounds Attempt.Details, in bytes.
const maxDetails = 160

// Attempt is a request to an exporting cluster of an import, or to what else is behind a hop, once
// it has ended there. A request that one cluster declines is sent to another, which makes another
// Attempt.
type Attempt struct {
	Gateway string          // whose key the call of the access log has, "namespace/name"; "" if calls need none
	Member  objectid.Target // the exporting cluster; zero behind a hop
	Served  string          // the endpoint that has served (Entry.Served), a hop included
	Cluster string          // the Envoy cluster (model.ClusterID); "" if no host was found there
	Route   string          // the name of the route; behind a hop, that of the hop (model.HopID)
	Request string          // the request's ID
	// the ID that the other cluster's gateway has given it; "" if it has kept Request, or is not
	// known
	There  string
	Began  time.Time
	Status int // of the answer; 0 if there was none
	// Declined means that no server there has begun the request.
	Declined bool
	// Details is why Envoy has answered (%RESPONSE_CODE_DETAILS%); "" if the answer is of the
	// server or gateway there.
	Details string
	// Canceled means that the client ended the request or its connection.
	Canceled bool
	// Headers is the time from the request's start to the answer's headers, FirstByte to the first
	// byte of its body, Took to its end, and Bytes the size of its body.
	Headers, FirstByte, Took time.Duration
	Bytes                    int64
	// Leased means that our picker, or its relay, has picked there for the request: its records
	// have it.
	Leased bool
	// At is the server or gateway that answered, the zero value if none did, and Host what it was
	// asked for. Reached means that the answer is its own, and not this gateway's.
	At      netip.AddrPort
	Host    string
	Reached bool
}

// mayBeAttempt reports whether an entry of a pick may be of an exporting cluster: most are not, and
// converting an entry takes a microsecond.
func mayBeAttempt(logged *datav3.HTTPAccessLogEntry) bool {
	common := logged.GetCommonProperties()
	return strings.Contains(common.GetUpstreamCluster(), "import/") || strings.HasPrefix(common.GetRouteName(), "hop.")
}

// attempt converts an entry. It returns false for a request that goes on, and for what is none of
// ours.
func attempt(logged *datav3.HTTPAccessLogEntry) (Attempt, bool) {
	common, request, response := logged.GetCommonProperties(), logged.GetRequest(), logged.GetResponse()
	member := text(common.GetMetadata(), "penstock", "member")
	to, _ := objectid.ParseTarget(member)
	a := Attempt{
		Member:   to,
		Served:   text(common.GetMetadata(), "envoy.lb", "x-gateway-destination-endpoint-served"),
		Cluster:  common.GetUpstreamCluster(),
		Route:    common.GetRouteName(),
		Request:  request.GetRequestId(),
		There:    response.GetResponseHeaders()[idHeader],
		Began:    common.GetStartTime().AsTime(),
		Status:   int(response.GetResponseCode().GetValue()),
		Declined: response.GetResponseHeaders()[declinedHeader] != "",
		Canceled: canceled(common),
		Took:     common.GetDuration().AsDuration(),
		Bytes:    int64(min(response.GetResponseBodyBytes(), 1<<62)),
		Leased:   text(common.GetMetadata(), "penstock", "lease") != "",
		At:       at(common.GetUpstreamRemoteAddress().GetSocketAddress()),
		Host:     request.GetAuthority(),
		Reached:  response.GetResponseCodeDetails() == "via_upstream",
	}
	a.Headers, a.FirstByte = begun(common)
	if d := response.GetResponseCodeDetails(); !a.Reached {
		a.Details = d[:min(len(d), maxDetails)]
	}
	if a.There == a.Request {
		a.There = ""
	}
	if k := common.GetAccessLogType(); k != datav3.AccessLogType_NotSet && k != datav3.AccessLogType_DownstreamEnd {
		return Attempt{}, false
	}
	return a, (a.Cluster != "" || a.Route != "") && len(member) <= maxText && len(a.Served) <= maxText &&
		len(a.Route) <= maxText && len(a.Request) <= maxText && len(a.There) <= maxText && len(a.Cluster) <= maxText &&
		len(a.Host) <= maxText
}

// canceled reports whether the client has ended the request or its connection.
func canceled(common *datav3.AccessLogCommon) bool {
	flags := common.GetResponseFlags()
	return flags.GetDownstreamConnectionTermination() || flags.GetDownstreamRemoteReset()
}

func at(a *corev3.SocketAddress) netip.AddrPort {
	ip, err := netip.ParseAddr(a.GetAddress())
	if err != nil || a.GetPortValue() > 1<<16-1 {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(a.GetPortValue()))
}
