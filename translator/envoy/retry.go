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
	// safeRetries repeat what no backend can have begun to answer.
	safeRetries = "connect-failure,refused-stream,reset-before-request"
	// userRetries are the causes that a route with a retry rule covers (Gateway API,
	// HTTPRouteRetry).
	userRetries = ",reset,retriable-status-codes"
	// spillRetries also repeat what a pod, or a hop's picker, was too full for; to a gRPC request
	// that is answered by a grpc-status.
	spillRetries = ",retriable-status-codes,unavailable,resource-exhausted"

	// resetRetries also repeat what a server may have begun and has not answered: its connection
	// has ended.
	resetRetries = ",reset"

	// markedRetries repeat what is marked: by a hop to an exporting cluster, or a member's gateway,
	// because no pod has begun it; or because our picker has found that the server that answered
	// 500 or 503 is dead (failed.go).
	markedRetries = ",retriable-headers"

	// poolRetries walks a list of picked endpoints; our picker sets the number that its list can
	// serve.
	poolRetries    = 3
	serviceRetries = 1
	retryBackoff   = time.Millisecond
	// otherHostTries is how often a retry draws again when it draws a host that has failed. Least
	// request takes the better of two draws, and a host that fails has nothing to do: of two hosts
	// the failed one comes three times in four, and ten draws (0.75^10) would leave one retry in
	// eighteen where it was.
	otherHostTries = 64
	// otherMemberTries is the same for exporting clusters, which are drawn by their weights. Of
	// 98:1:1, 64 draws find the first alone for one request in four; a thousand for none in 2,000,
	// at 435 us of CPU.
	otherMemberTries = 1000
	maxRetryDelay    = 10 * time.Millisecond
)

var spillCodes = []uint32{429, 503}

// retryPolicy is a route's; the budget of all retries to a cluster is among its circuitBreakers. It
// composes three wishes: repeating what never began (always), walking a picker's list and spilling
// (pools), and a user's own. The larger count holds; a picker learns of the user's
// (pickerOverride), because the number that it sets overrides the one here.
func (b *builder) retryPolicy(f *model.Forward) *routev3.RetryPolicy {
	p := &routev3.RetryPolicy{
		RetryOn: safeRetries,
		RetryBackOff: &routev3.RetryPolicy_RetryBackOff{
			BaseInterval: seconds(retryBackoff), MaxInterval: seconds(maxRetryDelay),
		},
		// Clusters that follow a pick ignore this; among servers of a Service it finds another one.
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
		if !timed { // "reset" would also repeat an attempt that takes too long
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
			// Each is asked once. The order in which hosts are drawn again is by their weights; a
			// picker that names hops names all of them, and those beyond its list are drawn.
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

// movesOn reports whether a request that a server may have begun is sent to another server of its
// pool once the server is dead. A retry rule without attempts forbids it. Requests to hops move on
// behind the hop.
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

// memberOrder has each hop of an import with several clusters asked once, in the order of their
// priorities.
func (b *builder) memberOrder(p *routev3.RetryPolicy, w *model.WeightedBackend) {
	switch {
	case w.Order.Priorities > 1:
		p.RetryPriority = b.nextPriority(1)
	case w.Spills > 0:
		p.RetryPriority = b.nextPriority(uint32(len(w.Members)))
	}
}

// memberRetries returns how often a request to an import with several clusters is sent again. Where
// priorities have more than one hop, Envoy goes on to the next priority after each attempt, and
// comes back for those that are left: so a smaller priority may be asked again, as Envoy has no
// other order.
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

// retryAlso repeats what a server may have begun, as a user allows.
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

// nextPriority moves on to the next priority after a number of attempts: with 1, to the next hop of
// a cluster of hops. Clusters with one priority do not notice.
func (b *builder) nextPriority(attempts uint32) *routev3.RetryPolicy_RetryPriority {
	return &routev3.RetryPolicy_RetryPriority{
		Name: "previous-priorities",
		ConfigType: &routev3.RetryPolicy_RetryPriority_TypedConfig{
			TypedConfig: b.any(&prioritiesv3.PreviousPrioritiesConfig{UpdateFrequency: int32(attempts)}),
		},
	}
}
