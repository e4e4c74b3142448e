package envoy

import (
	"slices"
	"strconv"
	"strings"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	previousv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/host/previous_hosts/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/penstock-project/penstock/translator/model"
)

const (
	metaPool    = "x-penstock-pool"
	metaSpill   = "x-penstock-spill" // value: comma-separated HopID.Address of other pools to try
	metaLast    = "x-penstock-last"
	metaSubset  = "x-penstock-subset"
	metaPools   = "x-penstock-pools"
	metaRetries = "x-penstock-retries"
	metaOpen    = "x-penstock-open"
	metaTries   = "x-penstock-tries"  // value: "fixed" if the route limits the time of one attempt
	metaUsage   = "x-penstock-usage"  // value: "exact" if streams must report their tokens
	metaImport  = "x-penstock-import" // set with metaPool in calls to another cluster's picker
)

// maxPickerMessage limits an external picker's message, in bytes. By default Envoy buffers messages
// of any size. ext_proc sends a body in chunks of 64 KiB.
const maxPickerMessage = 1 << 20

// The override is on the weighted cluster: on the route, it would also apply to other pools'
// requests (docs/envoy.md, "Calls to pickers").
func (b *builder) pickerOverride(
	p *model.PickerCall, f *model.Forward, pools string, calls pickerCalls,
) map[string]*anypb.Any {
	if p == nil {
		return nil
	}
	cluster, body := p.Cluster, calls.mode(p)
	exact := calls.exact && !cluster.External()
	if exact && calls.main && body == model.BodyNone && !p.Served {
		body = model.BodyBuffered
	}
	if cluster.External() && body == model.BodyNone {
		cluster = model.OurPicker // our picker relays the headers as a request without a body
	}
	service := b.grpc(cluster)
	service.RetryPolicy = b.callAgain() // Envoy uses EnvoyGrpc.retry_policy only for xDS streams
	if cluster.External() {
		service.GetEnvoyGrpc().MaxReceiveMessageLength = u32(maxPickerMessage)
	}
	switch {
	case !cluster.External() && !p.Pool.IsZero():
		describePick(service, p, f)
		if exact {
			addMeta(service, metaUsage, "exact")
		}
	case cluster.External() && p.RemotePool != "":
		addMeta(service, metaPool, p.RemotePool)
		addMeta(service, metaImport, "true")
	}
	name := filterPicker
	// filterSpillPicker ignores immediate responses, so that the request spills to another pool.
	// In other cases, an ignored response would become a 503.
	if p.Spills && p.Subset == nil && p.Body != model.BodyDuplex && !calls.models {
		name = filterSpillPicker
	}
	if calls.pools != "" {
		pools = calls.pools
	}
	if name == filterPicker && !cluster.External() && (calls.models || strings.Contains(pools, ",")) {
		addMeta(service, metaPools, pools)
	}
	mode := processingMode(body, p.Served)
	if cluster.External() && p.RemotePool != "" {
		// The call stays open, and the picker counts the request, until the response ends.
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
	if !cluster.External() && p.Body != model.BodyWhole { // with BodyWhole, the route's script waits for the body
		config[filterScripts] = b.script(responseCode)
	}
	if p.TokenUsage {
		// Envoy logs a warning wherever this filter is configured, so listeners do not have it.
		config[filterTokenUsage] = b.fillUsage(b.extension("stream-errors", b.streamErrors()))
	}
	return config
}

func describePick(service *corev3.GrpcService, p *model.PickerCall, f *model.Forward) {
	addMeta(service, metaPool, p.Pool.String())
	if f.Retry != nil && f.Retry.Attempts > 0 {
		addMeta(service, metaRetries, strconv.FormatUint(uint64(f.Retry.Attempts), 10))
	}
	if f.BackendTimeout != nil && *f.BackendTimeout > 0 {
		addMeta(service, metaTries, "fixed")
	}
	if p.Subset != nil {
		addMeta(service, metaSubset, p.Subset.Selector)
	}
	if len(p.Spill) > 0 {
		addMeta(service, metaSpill, strings.Join(p.Spill, ","))
	}
	if p.Last {
		addMeta(service, metaLast, "true")
	}
	if p.Open && !p.Closed && p.Subset == nil {
		addMeta(service, metaOpen, "true")
	}
}

func addMeta(service *corev3.GrpcService, key, value string) { // Envoy reads %...% in values as commands
	service.InitialMetadata = append(service.InitialMetadata,
		&corev3.HeaderValue{Key: key, Value: strings.ReplaceAll(value, "%", "%%")})
}

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

// Our picker needs no response headers, because it reads the access log.
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
		m.RequestTrailerMode = extprocv3.ProcessingMode_SEND // required with FULL_DUPLEX_STREAMED
	case model.BodyWhole:
		// With BUFFERED, Envoy would send the body only after the picker's answer to the headers.
		// These pickers answer headers and body together.
		m.RequestBodyMode = extprocv3.ProcessingMode_STREAMED
	}
	return m
}

type pickerCalls struct {
	mode   func(*model.PickerCall) model.BodyMode
	models bool   // the route takes requests for the list of models
	pools  string // value of metaPools; "" means rulePools
	main   bool   // the route takes the requests that match no sibling
	exact  bool   // as model.Route.ExactUsage
	gated  bool   // the route has AccessPolicies, so requests may have callerHeader
}

var (
	allCalls      = pickerCalls{mode: func(p *model.PickerCall) model.BodyMode { return p.Body }, main: true}
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

// bodyRoutes puts sibling routes before the main route, for requests whose bodies pickers must not
// receive. Our picker needs no siblings: it ends its call if the body is streamed.
func (b *builder) bodyRoutes(r *model.Route, main *routev3.Route) []*routev3.Route {
	f := r.Action.Forward
	// A retry cannot repeat a larger body: the client gets 507, even if no picker reads bodies.
	main.RequestBodyBufferLimit = wrapperspb.UInt64(maxBody)
	if slices.ContainsFunc(f.Backends, func(w model.WeightedBackend) bool {
		return w.Picker != nil && w.Picker.Body == model.BodyWhole
	}) {
		put(&main.TypedPerFilterConfig, filterScripts, b.script(waitCode))
	}
	if r.Match.GRPC != nil { // every gRPC call is a stream
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

// sibling is a kind of request that must be forwarded before its body ends, or that has no body.
type sibling struct {
	suffix  string
	headers []*routev3.HeaderMatcher
}

func bodyless() []sibling {
	present := &routev3.HeaderMatcher{
		Name:                 "upgrade",
		HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true},
	}
	content := byRegex(`(?i)(application/grpc|multipart/).*`)
	return []sibling{
		{"#upgrade", []*routev3.HeaderMatcher{present}},
		{"#stream", []*routev3.HeaderMatcher{header("content-type", content)}},
	}
}
