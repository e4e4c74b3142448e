package picker

import (
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

func (pool *pool) connect(old *pool) error {
	relay := pool.Relay
	if relay == nil {
		return nil
	}
	pool.relayHealth = &relayHealth{}
	if old != nil && old.Relay != nil && reflect.DeepEqual(old.Relay, relay) {
		pool.relayHealth = old.relayHealth
	}
	if old != nil && old.Relay != nil && reflect.DeepEqual(old.Relay.TLS, relay.TLS) &&
		slices.Equal(old.Relay.Pickers, relay.Pickers) && old.Relay.Names == relay.Names &&
		old.Relay.Pool == relay.Pool {
		pool.remote = old.remote
		return nil
	}
	var err error
	pool.remote, err = extproc.NewRemote(extproc.RemoteConfig{
		Addrs: relay.Pickers, TLS: relay.TLS, Names: relay.Names, Pool: relay.Pool,
	})
	return err
}

type remote struct{}

func (remote) restrict(k *pick) { k.spillTo = k.pool.spill(k.request.Spill) }

func (remote) rank(k *pick) {
	k.model, k.tokens = k.request.Facts.Model, k.request.Facts.Tokens
	started := time.Now()
	if !k.ask(started) {
		return
	}
	p, rules := k.picker, k.pool.Relay
	if now := p.pool(k.request.Pool); now != nil && now.Relay != nil {
		rules = now.Relay // Envoys may lack endpoints that the newer configuration excludes
	}
	addrs, outOfRange := p.nameable(rules, k.remote.Endpoints)
	failure := RelayFailure{}
	if k.outOfRange = outOfRange; len(outOfRange) > 0 {
		p.metrics.outOfRange.WithLabelValues(k.pool.Name).Add(float64(len(outOfRange)))
		failure.OutOfRange = outOfRange[0]
		if addr, err := netip.ParseAddrPort(outOfRange[0]); err == nil {
			failure.Denied = p.config.Addresses.Outside(addr.Addr())
		}
	}
	p.reportRelay(k.pool, failure, started)
	if len(addrs) == 0 {
		k.rejected(ReasonOutOfRange, "the picker of "+k.pool.Name+
			" in the other cluster named an address outside the declared ranges")
		return
	}
	if p.config.Learner != nil && !rules.Listed {
		if err := p.config.Learner.Learn(k.ctx, k.pool.ID, addrs); err != nil {
			p.config.Log.Debug("endpoint was not learned", "pool", k.pool.Name, "error", err)
			k.outOfRange = nil
			k.rejected(ReasonRelay, "the gateway did not learn the endpoint of "+k.pool.Name+" in time")
			return
		}
	}
	k.result, k.candidates = resultRelayed, len(addrs)
	k.names = make([]string, 0, len(addrs)+len(k.spillTo))
	for _, addr := range addrs {
		k.names = append(k.names, addr.String())
	}
}

func (k *pick) ask(started time.Time) bool {
	answer, err := k.pool.remote.Ask(k.ctx, k.request)
	for {
		now := k.picker.pool(k.request.Pool)
		if !errors.Is(err, extproc.ErrClosed) || now == nil || now == k.pool || now.remote == nil {
			break
		}
		k.pool = now // the pool was replaced between the lookup and the call
		answer, err = now.remote.Ask(k.ctx, k.request)
	}
	k.remote = answer
	switch {
	case err != nil:
		k.picker.config.Log.Debug("remote picker did not answer", "pool", k.pool.Name, "error", err)
		k.problem = extproc.Reason(err)
		if k.ctx.Err() == nil || time.Since(started) > minAnswerWait {
			k.picker.reportRelay(k.pool, RelayFailure{NoAnswer: k.problem}, started)
		}
		k.rejected(ReasonRelay, "the picker of "+k.pool.Name+" in the other cluster did not answer")
		return false
	case answer.Immediate != nil:
		k.picker.reportRelay(k.pool, RelayFailure{}, started)
		k.otherwise, k.result = extproc.Answer{Status: answer.Status, Passthrough: answer.Immediate}, resultPassed
		return false
	}
	return true
}

func (k *pick) rejected(reason, message string) {
	k.otherwise, k.result = immediate(503, reason, message), reason
	if k.remote.Track != nil {
		k.remote.Track.End()
		k.remote.Track = nil
	}
}

// lease keeps the call to the remote picker open until the request ends: while the call is open,
// the remote picker counts the request as in flight.
func (remote) lease(k *pick) {
	p, r, call := k.picker, k.request, k.remote.Track
	if k.answer.Track = call; call == nil || !r.Reported() || k.pool.remote.Crowded() || p.leases.Bounded(r.Gateway) {
		return
	}
	k.lease = p.leases.OpenAt(p.others.nowhere, endpoint.Holder{Gateway: r.Gateway, Pool: k.pool.Name}, call.End,
		time.Now())
	k.answer.Track = &relayedRequest{Tracker: call, lease: k.lease}
}

// spill decides about a request for which the remote picker named no endpoint. If the pool fails
// open, the request goes to any known endpoint, otherwise to spill targets. After a 429 or 503 from
// the remote picker, the pool does not fail open.
func (remote) spill(k *pick) {
	if len(k.names) > 0 {
		return
	}
	if known := k.pool.anyEndpoints(); k.request.Open && k.result != resultPassed && len(known) > 0 {
		k.names, k.result, k.candidates = known, resultOpen, len(known)
		return
	}
	if len(k.spillTo) > 0 {
		k.result = resultSpilled
		return
	}
	k.decide(k.otherwise, k.result)
}

func (remote) answer(k *pick) {
	track := k.answer.Track
	k.answer = listed(append(k.names, k.spillTo...), retries(k.request))
	k.answer.Track = track
	if k.result != resultRelayed {
		return
	}
	k.answer.ServedNamespace, k.answer.Changes = k.pool.Relay.Names.Namespace, k.remote.Changes
	if k.lease != nil {
		k.counted(&k.answer)
	}
}

// maxOpen bounds the endpoints that Envoy tries for a request of a pool that fails open. Several
// are needed, because only the remote picker knows which endpoints still exist.
const maxOpen = 8

func (pool *pool) anyEndpoints() (texts []string) {
	for _, i := range mathrand.Perm(len(pool.Servers)) {
		if len(texts) < maxOpen {
			texts = append(texts, pool.Servers[i].Addr.String())
		}
	}
	return texts
}

type relayedRequest struct {
	extproc.Tracker
	lease *endpoint.Lease
}

// End is called at the end of the gateway's call. End keeps the lease, because the request
// continues.
func (t *relayedRequest) End() { t.lease.Done() }

func (p *Picker) nameable(relay *Relay, texts []string) (addrs []netip.AddrPort, outOfRange []string) {
	for _, text := range texts {
		addr, err := netip.ParseAddrPort(strings.TrimSpace(text))
		// Envoy accepts no address with a zone.
		if err != nil || addr.Port() == 0 || addr.Addr().Zone() != "" ||
			len(relay.Ports) > 0 && !slices.Contains(relay.Ports, addr.Port()) || !relay.inside(addr.Addr().Unmap()) ||
			!relay.Listed && p.config.Addresses.Outside(addr.Addr()) != "" {
			outOfRange = append(outOfRange, text)
			continue
		}
		addrs = append(addrs, netip.AddrPortFrom(addr.Addr().Unmap(), addr.Port()))
	}
	return addrs, outOfRange
}

// inside reports whether a remote picker may name an address. Without declared ranges, inside
// excludes only loopback, link-local (a cloud's metadata server) and multicast addresses.
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
