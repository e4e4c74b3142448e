package accesslog

import (
	"strconv"
	"strings"
	"time"

	datav3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	aidatav3 "github.com/envoyproxy/go-control-plane/envoy/data/ai/v3"

	"github.com/penstock-project/penstock/picker/request"
)

// UsageLog is the access log for requests that an AccessPolicy's authorization filter allowed or
// denied. Its entries do not affect leases.
const UsageLog = "usage"

// Used is a request that the authorization filter allowed or denied.
type Used struct {
	// Open marks a periodic entry of a request in flight. ID identifies the request; "" if unknown.
	Open   bool
	ID     string
	Caller string // "namespace/owner"; "" if no policy admitted the request
	Denied bool
	// Unavailable means that Envoy responded with an error, because the authorization service sent
	// no answer. Only Caller, Route, Status and Took are set.
	Unavailable bool
	Route       string
	Took        time.Duration
	// Pool is the pool of our picker's pick (objectid.Target); "" without a pick. Cluster is the
	// request's Envoy cluster (model.ClusterID), or "".
	Pool, Cluster string
	Kind          request.Kind
	Model         string // "" if unknown
	// PromptTokens, PromptCached and GPU are the picker's estimates; 0 if it did not read the
	// prompt.
	PromptTokens, PromptCached int64
	GPU                        time.Duration
	Status                     int // 0 without a response
	// Cut means that the response is incomplete.
	Cut            bool
	Stream         bool
	Encoded        bool  // the response has a content encoding, and Sent is compressed
	Received, Sent int64 // sizes of the bodies of request and response, in bytes
	// Accounted means that the response reports its tokens: Input, CacheRead (the cached part of
	// Input) and Output.
	Accounted                bool
	Input, CacheRead, Output uint64
}

const (
	gateNamespace = "envoy.filters.http.ext_authz"
	gateCaller    = "caller"
	reasonHeader  = "x-penstock-reason"
	modelHeader   = "x-gateway-model-name"
	noAnswer      = "ext_authz_error"
)

func used(logged *datav3.HTTPAccessLogEntry) (u Used, ok bool) {
	common, response := logged.GetCommonProperties(), logged.GetResponse()
	switch common.GetAccessLogType() {
	case datav3.AccessLogType_NotSet, datav3.AccessLogType_DownstreamEnd:
	case datav3.AccessLogType_DownstreamPeriodic:
		u.Open = true
	default:
		return u, false
	}
	u.ID = common.GetStreamId()
	u.Caller = text(common.GetMetadata(), gateNamespace, gateCaller)
	u.Status = int(response.GetResponseCode().GetValue())
	if response.GetResponseCodeDetails() == noAnswer {
		u.Unavailable, u.Route, u.Took = true, common.GetRouteName(), common.GetDuration().AsDuration()
		return u, true
	}
	if common.GetResponseFlags().GetUnauthorizedDetails() != nil {
		// A user's own authorization service may also set the flag UnauthorizedDetails.
		if u.Caller == "" && response.GetResponseHeaders()[reasonHeader] == "" || u.Status >= 500 {
			return u, false
		}
		u.Denied = true
		return u, true
	}
	if u.Caller == "" || u.Open && u.ID == "" {
		return u, false
	}
	u.Pool = text(common.GetMetadata(), "penstock", "pool")
	u.Cluster = common.GetUpstreamCluster()
	u.Kind = request.KindOf([]byte(logged.GetRequest().GetPath()))
	u.Model = logged.GetRequest().GetRequestHeaders()[modelHeader]
	u.pick(text(common.GetMetadata(), "penstock", "pick"))
	content, _, _ := strings.Cut(response.GetResponseHeaders()["content-type"], ";")
	u.Stream = strings.EqualFold(strings.TrimSpace(content), "text/event-stream")
	encoding := response.GetResponseHeaders()["content-encoding"]
	u.Encoded = encoding != "" && !strings.EqualFold(encoding, "identity")
	u.Received = int64(logged.GetRequest().GetRequestBodyBytes())
	u.Sent = int64(response.GetResponseBodyBytes())
	u.Cut = strings.HasPrefix(response.GetResponseCodeDetails(), cutDetails)
	found := common.GetMetadata().GetTypedFilterMetadata()["envoy.ai.token_usage"]
	var account aidatav3.TokenUsage
	if found == nil || found.UnmarshalTo(&account) != nil ||
		account.GetExtractionStatus() != aidatav3.TokenUsage_COMPLETE {
		return u, true
	}
	u.Accounted = account.GetInputTokens() != nil || account.GetOutputTokens() != nil
	u.Input, u.Output = account.GetInputTokens().GetValue(), account.GetOutputTokens().GetValue()
	u.CacheRead = account.GetInputTokenDetails().GetCachedTokens().GetValue()
	return u, true
}

const maxModel = 256 // in bytes

// PickText encodes the picker's estimates for the metadata of a request. Envoy logs the metadata,
// from which Used gets the estimates.
func PickText(tokens, cached int, cost time.Duration, model string) string {
	// Envoy rejects messages with invalid UTF-8.
	model = strings.ToValidUTF8(model[:min(len(model), maxModel)], "")
	memory := make([]byte, 0, 40+len(model))
	memory = append(strconv.AppendInt(memory, int64(max(tokens, 0)), 10), ' ')
	memory = append(strconv.AppendInt(memory, int64(max(cached, 0)), 10), ' ')
	memory = append(strconv.AppendInt(memory, max(cost, 0).Microseconds(), 10), ' ')
	return string(append(memory, model...))
}

func (u *Used) pick(value string) {
	parts := strings.SplitN(value, " ", 4)
	if len(parts) < 4 {
		return
	}
	number := func(text string) int64 { n, _ := strconv.ParseUint(text, 10, 40); return int64(n) }
	u.PromptTokens, u.PromptCached = number(parts[0]), number(parts[1])
	u.GPU = time.Duration(number(parts[2])) * time.Microsecond
	if parts[3] != "" {
		u.Model = parts[3]
	}
}
