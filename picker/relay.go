package picker

import (
	"context"
	"errors"
	mathrand "math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
)

// connect gives a relayed pool its connections to the remote picker. It takes over those of old if the addresses are the same.
func (pool *pool) connect(old *pool) error {
	relay := pool.Relay
	if relay == nil {
		return nil
	}
	pool.relayHealth = &relayHealth{}
	if old != nil && old.Relay != nil && reflect.DeepEqual(old.Relay, relay) {
		pool.relayHealth = old.relayHealth
	}
	if old != nil && old.Relay != nil && reflect.DeepEqual(old.Relay.TLS, relay.TLS) && slices.Equal(old.Relay.Pickers, relay.Pickers) && old.Relay.Names == relay.Names && old.Relay.Pool == relay.Pool {
		pool.remote = old.remote
		return nil
	}
	var err error
	pool.remote, err = extproc.NewRemote(extproc.RemoteConfig{Addrs: relay.Pickers, TLS: relay.TLS, Names: relay.Names, Pool: relay.Pool})
	return err
}

// relay asks the remote picker, checks the addresses that it names, has Envoy learn them, and answers with them. If any of
// this fails, a pool that fails open has any endpoint serve, and a request with spill targets is spilled.
func (p *Picker) relay(ctx context.Context, pool *pool, r *extproc.Request) (extproc.Answer, decision) {
	started := time.Now()
	spill := pool.spill(r.Spill)
	fail := func(reason, message string) (extproc.Answer, decision) {
		if known := pool.anyEndpoints(); r.Open && len(known) > 0 {
			return listed(append(known, spill...), retries(r)), decision{result: resultOpen, candidates: len(known)}
		}
		if len(spill) > 0 {
			return listed(slices.Clip(spill), retries(r)), decision{result: resultSpilled}
		}
		return immediate(503, reason, message), decision{result: reason}
	}
	remote, err := pool.remote.Ask(ctx, r)
	if now := p.pool(r.Pool); errors.Is(err, extproc.ErrClosed) && now != nil && now != pool && now.remote != nil {
		return p.relay(ctx, now, r) // the pool was replaced between the lookup and the call
	}
	if err != nil {
		p.log.Debug("remote picker did not answer", "pool", pool.Name, "error", err)
		why := extproc.Reason(err)
		if ctx.Err() == nil || time.Since(started) > minAnswerWait {
			p.reportRelay(pool, RelayFailure{NoAnswer: why}, started)
		}
		a, d := fail(ReasonRelay, "the picker of "+pool.Name+" in the other cluster did not answer")
		d.problem = why
		return a, d
	}
	if remote.Immediate != nil {
		p.reportRelay(pool, RelayFailure{}, started)
		if len(spill) > 0 {
			return listed(slices.Clip(spill), retries(r)), decision{result: resultSpilled}
		}
		return extproc.Answer{Status: remote.Status, Passthrough: remote.Immediate}, decision{result: resultPassed}
	}
	rules := pool.Relay
	if now := p.pool(r.Pool); now != nil && now.Relay != nil {
		rules = now.Relay // Envoys lose what only the configuration at the time of the question declares
	}
	addrs, outOfRange := p.nameable(rules, remote.Endpoints)
	failure := RelayFailure{}
	if len(outOfRange) > 0 {
		p.metrics.outOfRange.WithLabelValues(pool.Name).Add(float64(len(outOfRange)))
		failure.OutOfRange = outOfRange[0]
		if addr, err := netip.ParseAddrPort(outOfRange[0]); err == nil {
			failure.Denied = p.outside(addr.Addr())
		}
	}
	p.reportRelay(pool, failure, started)
	if len(addrs) == 0 {
		remote.Track.End()
		a, d := fail(ReasonOutOfRange, "the picker of "+pool.Name+" in the other cluster named an address outside the declared ranges")
		d.outOfRange = outOfRange
		return a, d
	}
	if p.learner != nil && !rules.Listed {
		if err := p.learner.Learn(ctx, pool.Name, addrs); err != nil {
			p.log.Debug("endpoint was not learned", "pool", pool.Name, "error", err)
			remote.Track.End()
			return fail(ReasonRelay, "the gateway did not learn the endpoint of "+pool.Name+" in time")
		}
	}
	texts := make([]string, 0, len(addrs)+len(spill))
	for _, addr := range addrs {
		texts = append(texts, addr.String())
	}
	a := listed(append(texts, spill...), retries(r))
	a.Track, a.ServedNamespace, a.Changes = remote.Track, pool.Relay.Names.Namespace, remote.Changes
	return a, decision{result: resultRelayed, candidates: len(addrs), outOfRange: outOfRange, lease: p.keepCall(pool, r, &a)}
}

// maxOpen is how many endpoints a request is sent to without a pick, one after the other: some of them may be gone, which their own picker knows.
const maxOpen = 8

// anyEndpoints draws some of those that are known of a pool whose picks are relayed.
func (pool *pool) anyEndpoints() (texts []string) {
	for _, i := range mathrand.Perm(len(pool.Servers)) {
		if len(texts) < maxOpen {
			texts = append(texts, pool.Servers[i].Addr.String())
		}
	}
	return texts
}

// keepCall keeps the call of the remote picker open until the access log reports that the request has ended: so long, the request counts
// there. It returns the request's lease; nil if the call ends with the gateway's.
func (p *Picker) keepCall(pool *pool, r *extproc.Request, a *extproc.Answer) *endpoint.Lease {
	if !r.Reported() || pool.remote.Crowded() || p.leases.Bounded(r.Gateway) {
		return nil
	}
	call := a.Track
	lease := p.leases.OpenAt(p.nowhere, endpoint.Holder{Gateway: r.Gateway, Pool: pool.Name}, call.End, time.Now())
	a.Pool, a.Lease = pool.Name, extproc.Lease{Owner: p.leases.Owner(), Number: lease.Number()}
	a.Track = &relayedRequest{Tracker: call, lease: lease}
	return lease
}

// relayedRequest follows a request whose lease ends the call of the remote picker.
type relayedRequest struct {
	extproc.Tracker
	lease *endpoint.Lease
}

// End implements extproc.Tracker: the gateway's call has ended, and the request goes on.
func (t *relayedRequest) End() { t.lease.Done() }

// nameable splits the addresses into those that may be named, and the others.
func (p *Picker) nameable(relay *Relay, texts []string) (addrs []netip.AddrPort, outOfRange []string) {
	for _, text := range texts {
		addr, err := netip.ParseAddrPort(strings.TrimSpace(text))
		// Envoy takes no address with a zone.
		if err != nil || addr.Port() == 0 || addr.Addr().Zone() != "" || len(relay.Ports) > 0 && !slices.Contains(relay.Ports, addr.Port()) || !relay.inside(addr.Addr().Unmap()) || !relay.Listed && p.outside(addr.Addr()) != "" {
			outOfRange = append(outOfRange, text)
			continue
		}
		addrs = append(addrs, netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port()))
	}
	return addrs, outOfRange
}

// inside reports whether a remote pod may have an address. Without declared ranges any is allowed but those that lead to
// this machine or this link, where no remote pod is: loopback, link-local (a cloud's metadata server), multicast.
func (relay *Relay) inside(ip netip.Addr) bool {
	if relay.Listed {
		return true
	}
	if len(relay.Within) == 0 {
		return ip.IsGlobalUnicast()
	}
	return !slices.ContainsFunc(relay.Within, func(list []netip.Prefix) bool {
		return !slices.ContainsFunc(list, func(c netip.Prefix) bool { return c.Contains(ip) })
	})
}
