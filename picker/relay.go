package picker

import (
	"context"
	"errors"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/penstock-project/penstock/picker/extproc"
)

// connect gives a relayed pool its connections to the remote picker: those it had, unless they lead elsewhere now.
func (pool *pool) connect(old *pool) error {
	relay := pool.Relay
	if relay == nil {
		return nil
	}
	pool.standing = &standing{}
	if old != nil && old.Relay != nil && reflect.DeepEqual(old.Relay, relay) {
		pool.standing = old.standing
	}
	if old != nil && old.Relay != nil && old.Relay.TLS == relay.TLS && slices.Equal(old.Relay.Pickers, relay.Pickers) {
		pool.remote = old.remote
		return nil
	}
	var err error
	pool.remote, err = extproc.NewRemote(extproc.RemoteConfig{Addrs: relay.Pickers, TLS: relay.TLS})
	return err
}

// relay asks the remote picker, checks what it names, has Envoy learn it, and answers with it. Whatever goes wrong, a
// request that may spill does.
func (p *Picker) relay(ctx context.Context, pool *pool, r *extproc.Request) (extproc.Answer, decision) {
	started := time.Now()
	spill := pool.spill(r.Spill)
	fail := func(reason, message string) (extproc.Answer, decision) {
		if len(spill) > 0 {
			return listed(spill, retries(r)), decision{result: resultSpilled}
		}
		return refusal(503, reason, message), decision{result: reason}
	}
	remote, err := pool.remote.Ask(ctx, r)
	if now := p.pool(r.Pool); errors.Is(err, extproc.ErrClosed) && now != nil && now != pool && now.remote != nil {
		return p.relay(ctx, now, r) // the pool was replaced between being looked up and being asked
	}
	if err != nil {
		p.log.Debug("remote picker did not answer", "pool", pool.Name, "error", err)
		why := extproc.Reason(err)
		if ctx.Err() == nil || time.Since(started) > givenUp {
			p.stands(pool, RelayTrouble{Unanswered: why}, started)
		}
		a, d := fail(ReasonRelay, "the picker of "+pool.Name+" in the other cluster did not answer")
		d.problem = why
		return a, d
	}
	if remote.Immediate != nil {
		p.stands(pool, RelayTrouble{}, started)
		if len(spill) > 0 {
			return fail("", "")
		}
		return extproc.Answer{Status: remote.Status, Foreign: remote.Immediate}, decision{result: resultPassed}
	}
	addrs, refused := pool.Relay.allowed(remote.Endpoints)
	stands := RelayTrouble{}
	if len(refused) > 0 {
		p.metrics.relay.WithLabelValues(pool.Name).Add(float64(len(refused)))
		stands.Refused = refused[0]
	}
	p.stands(pool, stands, started)
	if len(addrs) == 0 {
		remote.Track.End()
		a, d := fail(ReasonRefused, "the picker of "+pool.Name+" in the other cluster named an address outside of those declared")
		d.refused = refused
		return a, d
	}
	if p.learner != nil {
		if err := p.learner.Learn(ctx, pool.Name, addrs); err != nil {
			p.log.Debug("endpoint was not learnt", "pool", pool.Name, "error", err)
			remote.Track.End()
			return fail(ReasonRelay, "the gateway did not learn the endpoint of "+pool.Name+" in time")
		}
	}
	texts := make([]string, 0, len(addrs)+len(spill))
	for _, addr := range addrs {
		texts = append(texts, addr.String())
	}
	a := listed(append(texts, spill...), retries(r))
	a.Track = remote.Track
	return a, decision{result: resultRelayed, candidates: len(addrs), refused: refused}
}

// allowed keeps the addresses that lie inside of what is declared; the others are refused.
func (relay *Relay) allowed(texts []string) (addrs []netip.AddrPort, refused []string) {
	for _, text := range texts {
		addr, err := netip.ParseAddrPort(strings.TrimSpace(text))
		if err != nil || len(relay.Ports) > 0 && !slices.Contains(relay.Ports, addr.Port()) || !relay.inside(addr.Addr().Unmap()) {
			refused = append(refused, text)
			continue
		}
		addrs = append(addrs, addr)
	}
	return addrs, refused
}

// inside says whether a remote pod may have an address. With nothing declared it may be any but those that mean this
// machine or this link, where a remote picker has no business: loopback, link-local (a cloud's metadata server), multicast.
func (relay *Relay) inside(ip netip.Addr) bool {
	if len(relay.CIDRs) == 0 {
		return ip.IsGlobalUnicast()
	}
	return slices.ContainsFunc(relay.CIDRs, func(c netip.Prefix) bool { return c.Contains(ip) })
}
