package envoy

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	aiv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ai_protocol_manager/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	previousv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/host/previous_hosts/v3"
	matcherv3 "github.com/envoyproxy/go-control-plane/envoy/type/matcher/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/penstock-project/penstock/translator/model"
)

// What our picker receives about a request, in the initial metadata of its ext_proc stream.
const (
	metaPool   = "x-penstock-pool"   // objectid.Target
	metaSpill  = "x-penstock-spill"  // model.HopID.Address of each place to spill, comma-separated
	metaLast   = "x-penstock-last"   // "true" on a hop, which spills no further
	metaSubset = "x-penstock-subset" // Subset.Selector
	// objectid.Target of each pool of the rule, comma-separated, where there are several (addPool)
	metaPools   = "x-penstock-pools"
	metaRetries = "x-penstock-retries" // how often the user wants a request to be tried again, at least
	// "true" where our picker, which relays to another one, names any endpoint if that one names
	// none
	metaOpen   = "x-penstock-open"
	metaTries  = "x-penstock-tries"  // "fixed" where the route states how long one attempt may take
	metaImport = "x-penstock-import" // "true" in calls to a picker of another cluster, beside metaPool
)

// maxPickerMessage is the largest message that an external picker may send, in bytes: a pick, an
// immediate response or a chunk of a body, for which ext_proc has 64 KiB. Without it, Envoy holds
// an answer of any size. With a larger message the call has failed.
const maxPickerMessage = 1 << 20

// pickerOverride is what makes one weighted cluster ask its picker. On the weighted cluster, never
// on the route: there, requests of one pool would be asked at another's picker (docs/envoy.md,
// "Calls to pickers").
func (b *builder) pickerOverride(
	p *model.PickerCall, f *model.Forward, pools string, calls pickerCalls,
) map[string]*anypb.Any {
	if p == nil {
		return nil
	}
	cluster, body := p.Cluster, calls.mode(p)
	if cluster.External() && body == model.BodyNone {
		cluster = model.OurPicker // which sends the headers on as those of a request without a body
	}
	service := b.grpc(cluster)
	service.RetryPolicy = b.callAgain() // that of EnvoyGrpc is read for xDS streams only
	if cluster.External() {
		service.GetEnvoyGrpc().MaxReceiveMessageLength = u32(maxPickerMessage)
	}
	meta := func(k, v string) { // Envoy reads the value as a format
		service.InitialMetadata = append(service.InitialMetadata,
			&corev3.HeaderValue{Key: k, Value: strings.ReplaceAll(v, "%", "%%")})
	}
	if !cluster.External() && !p.Pool.IsZero() {
		meta(metaPool, p.Pool.String())
		if f.Retry != nil && f.Retry.Attempts > 0 {
			meta(metaRetries, strconv.FormatUint(uint64(f.Retry.Attempts), 10))
		}
		if f.BackendTimeout != nil && *f.BackendTimeout > 0 {
			meta(metaTries, "fixed")
		}
		if p.Subset != nil {
			meta(metaSubset, p.Subset.Selector)
		}
		if len(p.Spill) > 0 {
			meta(metaSpill, strings.Join(p.Spill, ","))
		}
		if p.Last {
			meta(metaLast, "true")
		}
		if p.Open && !p.Closed && p.Subset == nil {
			meta(metaOpen, "true")
		}
	}
	if cluster.External() && p.RemotePool != "" {
		meta(metaPool, p.RemotePool)
		meta(metaImport, "true")
	}
	name := filterPicker
	// there, an ignored immediate response would be a 503 all the same
	if p.Spills && p.Subset == nil && p.Body != model.BodyDuplex && !calls.models {
		name = filterSpillPicker
	}
	if calls.pools != "" {
		pools = calls.pools
	}
	if name == filterPicker && !cluster.External() && (calls.models || strings.Contains(pools, ",")) {
		meta(metaPools, pools)
	}
	mode := processingMode(body, p.Served)
	if cluster.External() && p.RemotePool != "" {
		// has the call last until the response ends: so long, the request counts there
		mode.ResponseTrailerMode = extprocv3.ProcessingMode_SEND
	}
	config := map[string]*anypb.Any{name: b.any(&extprocv3.ExtProcPerRoute{
		Override: &extprocv3.ExtProcPerRoute_Overrides{Overrides: &extprocv3.ExtProcOverrides{
			GrpcService:      service,
			FailureModeAllow: boolean(true),
			ProcessingMode:   mode,
			MetadataOptions:  callMetadata(p, !cluster.External()),
		}},
	})}
	if !cluster.External() && p.Body != model.BodyWhole { // a body is waited for by the route's script
		config[filterScripts] = b.script(responseCode)
	}
	if p.TokenUsage {
		// Envoy logs a warning for each use of this filter, because its API is work in progress: it
		// is in no list of a listener.
		config[filterTokenUsage] = b.fillAll(b.extension(filterTokenUsage,
			&aiv3.AiProtocolManager{ResponseHandling: &aiv3.ResponseHandling{
				TokenUsage: &aiv3.TokenUsageExtraction{IncludeUnconfiguredRoutes: true},
			}}), b.extension("stream-errors", b.streamErrors()))
	}
	return config
}

// callAgain moves a call to another picker when one is gone, within the time that a request may
// wait for it.
func (b *builder) callAgain() *corev3.RetryPolicy {
	return &corev3.RetryPolicy{
		RetryOn:    "connect-failure,reset,refused-stream,unavailable",
		NumRetries: u32(3),
		RetryBackOff: &corev3.BackoffStrategy{
			BaseInterval: seconds(time.Millisecond),
			MaxInterval:  seconds(10 * time.Millisecond),
		},
		RetryHostPredicate: []*corev3.RetryPolicy_RetryHostPredicate{{
			Name: "previous-hosts",
			ConfigType: &corev3.RetryPolicy_RetryHostPredicate_TypedConfig{
				TypedConfig: b.any(&previousv3.PreviousHostsPredicate{}),
			},
		}},
		HostSelectionRetryMaxAttempts: otherHostTries,
	}
}

// processingMode is how much of a request its picker sees. Only external pickers get response
// headers, which name the endpoint that served (endpoint picker protocol); ours reads the access
// log, beside the request's path.
func processingMode(body model.BodyMode, served bool) *extprocv3.ProcessingMode {
	m := &extprocv3.ProcessingMode{
		RequestHeaderMode:  extprocv3.ProcessingMode_SEND,
		ResponseHeaderMode: extprocv3.ProcessingMode_SKIP,
	}
	if served {
		m.ResponseHeaderMode = extprocv3.ProcessingMode_SEND
	}
	switch body {
	case model.BodyBuffered:
		m.RequestBodyMode = extprocv3.ProcessingMode_BUFFERED
	case model.BodyDuplex:
		m.RequestBodyMode = extprocv3.ProcessingMode_FULL_DUPLEX_STREAMED
		m.RequestTrailerMode = extprocv3.ProcessingMode_SEND // Envoy demands it with FULL_DUPLEX_STREAMED
	case model.BodyWhole:
		// With BUFFERED, Envoy would hold the body back until the headers are answered, which these
		// pickers do last.
		m.RequestBodyMode = extprocv3.ProcessingMode_STREAMED
	}
	return m
}

// pickerCalls is how the pickers of one of Envoy's routes are called.
type pickerCalls struct {
	mode   func(*model.PickerCall) model.BodyMode
	models bool   // the route's requests are for the list of models
	pools  string // metaPools of such a route; "": those of the rule that our picker may pick from
}

var (
	allCalls      = pickerCalls{mode: func(p *model.PickerCall) model.BodyMode { return p.Body }}
	bodylessCalls = pickerCalls{mode: withoutBody}
	modelsCalls   = pickerCalls{mode: func(*model.PickerCall) model.BodyMode { return model.BodyNone }, models: true}
)

func withoutBody(p *model.PickerCall) model.BodyMode {
	if p.EndsStreams() {
		return p.Body
	}
	return model.BodyNone
}
func waits(w model.WeightedBackend) bool {
	return w.Picker != nil && w.Picker.Body != model.BodyNone && !w.Picker.EndsStreams()
}

// bodyRoutes are the main route of a rule and, before it, siblings that are equal but for the body,
// which their pickers do not get. Where all pickers are ours there are none: ours ends its call
// when a body is a stream.
func (b *builder) bodyRoutes(r *model.Route, main *routev3.Route) []*routev3.Route {
	f := r.Action.Forward
	// Also where no picker reads the body: what a retry cannot repeat is answered 507.
	main.RequestBodyBufferLimit = wrapperspb.UInt64(maxBody)
	if slices.ContainsFunc(f.Backends, func(w model.WeightedBackend) bool {
		return w.Picker != nil && w.Picker.Body == model.BodyWhole
	}) {
		put(&main.TypedPerFilterConfig, filterScripts, b.script(waitCode))
	}
	if r.Match.GRPC != nil { // streams, all of them
		main.Action = b.routeAction(r, bodylessCalls)
		return []*routev3.Route{main}
	}
	var routes []*routev3.Route
	if slices.ContainsFunc(f.Backends, waits) {
		for _, s := range bodyless() {
			sibling := &routev3.Route{Name: r.Name + s.suffix, Match: routeMatch(r.Match)}
			sibling.Match.Headers = append(sibling.Match.Headers, s.headers...)
			changeHeaders(sibling, r.Action)
			sibling.RequestBodyBufferLimit = main.RequestBodyBufferLimit
			sibling.TypedPerFilterConfig = main.TypedPerFilterConfig
			sibling.Action = b.routeAction(r, bodylessCalls)
			routes = append(routes, sibling)
		}
	}
	if list := b.modelsRoute(r, main); list != nil {
		routes = append(routes, list)
	}
	main.Action = b.routeAction(r, allCalls)
	return append(routes, main)
}

// sibling is one kind of request that must be sent on before its body has ended, or that has none.
type sibling struct {
	suffix  string
	headers []*routev3.HeaderMatcher
}

// bodyless are the kinds: a picker that waits for the end of a body would never answer an upgrade
// or a gRPC stream, and has nothing to learn from a multipart body. An external picker gets the
// headers of such a request from ours, with the end of the request: Envoy would send them without,
// and the picker wait for the body.
func bodyless() []sibling {
	present := &routev3.HeaderMatcher{
		Name:                 "upgrade",
		HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true},
	}
	content := &matcherv3.StringMatcher{MatchPattern: &matcherv3.StringMatcher_SafeRegex{
		SafeRegex: regex(`(?i)(application/grpc|multipart/).*`),
	}}
	return []sibling{
		{"#upgrade", []*routev3.HeaderMatcher{present}},
		{"#stream", []*routev3.HeaderMatcher{header("content-type", content)}},
	}
}
