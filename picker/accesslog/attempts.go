package accesslog

import (
	"net/netip"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"

	"github.com/penstock-project/penstock/discovery/objectid"
)

// MembersLog is the access log for requests without a lease that go to another cluster, which
// exports the pool of an import.
const MembersLog = "members"

// declinedHeader marks a response of a cluster where no server has begun the request
// (docs/envoy.md).
const (
	declinedHeader = "penstock-peer-refused"
	idHeader       = "x-request-id"
)

// maxText bounds each string of an Attempt, in bytes. Entries with longer strings are ignored: our
// own configuration never makes these.
const maxText = 1024

const maxDetails = 160 // in bytes, for Attempt.Details

// Attempt is an ended request that Envoy has sent to another cluster, which exports the pool of an
// import, or to another target of a hop.
type Attempt struct {
	Gateway string
	Member  objectid.Target // the exporting cluster; zero for a hop
	Served  string
	Cluster string // Envoy cluster (model.ClusterID); "" if it had no host
	Route   string
	Request string
	// There is the request's ID at the other cluster's gateway; "" if unknown or equal to Request.
	There  string
	Began  time.Time
	Status int // 0 without a response
	// Declined means that no server at the target has begun the request.
	Declined bool
	// Details is Envoy's %RESPONSE_CODE_DETAILS% if Envoy itself sent the response, else "".
	Details string
	// Canceled means that the client ended the request or its connection.
	Canceled bool
	// Headers, FirstByte and Took are times since the request's start.
	Headers, FirstByte, Took time.Duration
	Bytes                    int64
	// Leased means that our picker, or its relay, picked an endpoint. The picker's records then
	// contain the request.
	Leased bool
	// At is the server or gateway that responded; zero if unknown. Reached means that At responded,
	// not this gateway.
	At      netip.AddrPort
	Host    string
	Reached bool
}

// mayBeAttempt returns false for most entries that are no attempts. The function attempt takes a
// microsecond more.
func mayBeAttempt(logged *datav3.HTTPAccessLogEntry) bool {
	common := logged.GetCommonProperties()
	return strings.Contains(common.GetUpstreamCluster(), "import/") || strings.HasPrefix(common.GetRouteName(), "hop.")
}

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
