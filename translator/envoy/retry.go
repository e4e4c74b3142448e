package envoy

import (
	"slices"
	"time"

	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	previousv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/host/previous_hosts/v3"
	prioritiesv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/retry/priority/previous_priorities/v3"

	"github.com/penstock-project/penstock/translator/model"
)

const (
	safeRetries = "connect-failure,refused-stream,reset-before-request"
	userRetries = ",reset,retriable-status-codes"
	// spillRetries also retries if a pod or a hop's picker is full. gRPC answers report this in
	// grpc-status.
	spillRetries = ",retriable-status-codes,unavailable,resource-exhausted"

	resetRetries = ",reset"

	// A header marks answers to retry: deadMark by our picker (failed.go), peerMark and peerLost by
	// a member's gateway or by a hop.
	markedRetries = ",retriable-headers"

	poolRetries    = 3
	serviceRetries = 1
	retryBackoff   = time.Millisecond
	// otherHostTries is how often a retry may draw again when it draws the host that failed. The
	// least-request policy prefers the failed host, which is idle: with ten draws and two hosts,
	// one retry in eighteen would stay at the failed host.
	otherHostTries = 64
	// otherMemberTries is the same limit for exporting clusters, which Envoy draws by weight. With
	// weights 98:1:1, 64 draws fail to find another cluster for one request in four. With 1,000
	// draws, at 435 us of CPU, this happens to less than one in 2,000.
	otherMemberTries = 1000
	maxRetryDelay    = 10 * time.Millisecond
)

var spillCodes = []uint32{429, 503}

// The largest of the backends' and the user's numbers of retries applies. A picker receives the
// user's number (metaRetries), because the picker's number overrides the route's.
func (b *builder) retryPolicy(f *model.Forward) *routev3.RetryPolicy {
	p := &routev3.RetryPolicy{
		RetryOn: safeRetries,
		RetryBackOff: &routev3.RetryPolicy_RetryBackOff{
			BaseInterval: seconds(retryBackoff), MaxInterval: seconds(maxRetryDelay),
		},
		// This predicate selects another server of a Service. Clusters with a picker ignore it.
		RetryHostPredicate: []*routev3.RetryPolicy_RetryHostPredicate{{
			Name: "previous-hosts",
			ConfigType: &routev3.RetryPolicy_RetryHostPredicate_TypedConfig{
				TypedConfig: b.any(&previousv3.PreviousHostsPredicate{}),
			},
		}},
		HostSelectionRetryMaxAttempts: otherHostTries,
	}
	timed := f.BackendTimeout != nil && *f.BackendTimeout > 0
	if movesOn(f) {
		if !timed { // "reset" would also retry an attempt that timed out
			p.RetryOn += resetRetries
		}
		p.RetryOn += markedRetries
		p.RetriableHeaders = append(p.RetriableHeaders, present(deadMark))
	}
	attempts := uint32(serviceRetries)
	for _, w := range f.Backends {
		if w.Picker != nil || w.Hops {
			attempts = poolRetries
		}
		if w.Hops || w.Picker != nil && w.Picker.Spills {
			p.RetryOn += spillRetries
			p.RetriableStatusCodes = append(p.RetriableStatusCodes, spillCodes...)
		}
		if w.Hops {
			p.RetryPriority = b.nextPriority(1)
		}
		if n := uint32(len(w.Members)); n > 0 {
			// Each member is tried once. Without a pick, Envoy draws members by weight.
			p.RetryOn += markedRetries
			p.RetriableHeaders = append(p.RetriableHeaders, present(peerMark))
			p.HostSelectionRetryMaxAttempts = otherMemberTries
			b.retryAlso(p, w.RetryOn)
			b.memberOrder(p, &w)
			attempts = memberRetries(&w)
		}
	}
	if r := f.Retry; r != nil && r.Attempts > 0 {
		attempts = max(attempts, r.Attempts)
		p.RetryOn += userRetries
		p.RetriableStatusCodes = append(p.RetriableStatusCodes, r.Codes...)
		if r.Backoff > 0 {
			p.RetryBackOff = &routev3.RetryPolicy_RetryBackOff{BaseInterval: seconds(r.Backoff)}
		}
	}
	if timed {
		p.PerTryTimeout = seconds(*f.BackendTimeout)
	}
	slices.Sort(p.RetriableStatusCodes)
	p.RetriableStatusCodes = slices.Compact(p.RetriableStatusCodes)
	p.NumRetries = u32(attempts)
	return p
}

// movesOn reports whether requests that a dead server may have started are retried at another
// server. A retry rule with 0 attempts forbids this. For hops, the route behind the hop decides.
func movesOn(f *model.Forward) bool {
	if f.Retry != nil && f.Retry.Attempts == 0 {
		return false
	}
	return slices.ContainsFunc(f.Backends, func(w model.WeightedBackend) bool {
		return w.Picker != nil && len(w.Members) == 0
	})
}

func present(header string) *routev3.HeaderMatcher {
	return &routev3.HeaderMatcher{
		Name: header, HeaderMatchSpecifier: &routev3.HeaderMatcher_PresentMatch{PresentMatch: true},
	}
}

func (b *builder) memberOrder(p *routev3.RetryPolicy, w *model.WeightedBackend) {
	switch {
	case w.Order.Priorities > 1:
		p.RetryPriority = b.nextPriority(1)
	case w.Spills > 0:
		p.RetryPriority = b.nextPriority(uint32(len(w.Members)))
	}
}

// Envoy moves to the next priority after each attempt, and begins again after the last priority. So
// it may try a hop twice if the hop's priority has few hops.
func memberRetries(w *model.WeightedBackend) uint32 {
	n, o := uint32(len(w.Members)), w.Order
	switch {
	case o.Priorities <= 1, o.InOrder:
		return n + w.Spills - 1
	case w.Spills > 0:
		return (o.Priorities+1)*max(o.Largest, w.Spills) - 1
	}
	return o.Priorities*o.Largest - 1
}

func (b *builder) retryAlso(p *routev3.RetryPolicy, on model.RetryOn) {
	if on.Full {
		p.RetriableStatusCodes = append(p.RetriableStatusCodes, 429)
	}
	if on.Unavailable {
		p.RetriableStatusCodes = append(p.RetriableStatusCodes, 503)
	}
	if len(p.RetriableStatusCodes) > 0 {
		p.RetryOn += ",retriable-status-codes"
	}
	if on.LostGateway {
		p.RetriableHeaders = append(p.RetriableHeaders, present(peerLost))
	}
}

func (b *builder) nextPriority(attempts uint32) *routev3.RetryPolicy_RetryPriority {
	return &routev3.RetryPolicy_RetryPriority{
		Name: "previous-priorities",
		ConfigType: &routev3.RetryPolicy_RetryPriority_TypedConfig{
			TypedConfig: b.any(&prioritiesv3.PreviousPrioritiesConfig{UpdateFrequency: int32(attempts)}),
		},
	}
}
