package app

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sync"

	"github.com/penstock-project/penstock/cmd/penstock/internal/delivery"
	"github.com/penstock-project/penstock/cmd/penstock/internal/peers"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// acknowledged reports a folder's AccessPolicies as not programmed until proxies acknowledge them.
type acknowledged struct {
	board      *status.Board
	programmed *peers.Programmed
	gated      gated

	mu       sync.Mutex
	policies map[string][]report.Ref // by Gateway
	begun    map[string]bool         // Gateways with a change that is not committed yet
}

func newAcknowledged(a *App) *acknowledged {
	out := &acknowledged{board: a.board, gated: gated{}, policies: map[string][]report.Ref{}, begun: map[string]bool{}}
	out.programmed = peers.NewProgrammed(peers.ProgrammedConfig{Channel: a.channel, Proxies: a.proxies, Acks: a.xds,
		Resources: a.translation.Listeners, Version: a.cache.Current, Policies: out.gated.at, Changed: out.changed,
		Log: a.log})
	return out
}

// Steps implements delivery.Part. Its first step overrides translation's report that a policy is
// programmed.
func (k *acknowledged) Steps() []delivery.Step {
	var gateways []string
	return []delivery.Step{{Stage: delivery.Report, Deliver: func(_ context.Context, ch *delivery.Change) {
		gateways = k.gated.follow(ch)
		slices.Sort(gateways)
		gateways = slices.Compact(gateways)
		for _, gateway := range gateways {
			k.begin(gateway)
		}
	}}, {Stage: delivery.Observe, Deliver: func(_ context.Context, ch *delivery.Change) {
		for _, gateway := range gateways {
			if _, ok := store.Gateways.Get(ch.View, gateway); ok {
				k.programmed.Expect(gateway, 0)
			} else {
				k.programmed.Drop(gateway)
			}
			k.mu.Lock()
			delete(k.begun, gateway)
			k.mu.Unlock()
			k.changed(gateway)
		}
	}}}
}

func (k *acknowledged) begin(gateway string) {
	var refs []report.Ref
	for _, id := range slices.Sorted(maps.Keys(k.gated[gateway])) {
		refs = append(refs, store.RefOf(store.AccessPolicies, id))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.policies[gateway] = refs; len(refs) == 0 {
		delete(k.policies, gateway)
	}
	k.begun[gateway] = true
	k.report(gateway, "its proxies have not acknowledged the change yet")
}

func (k *acknowledged) changed(gateway string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.begun[gateway] {
		return
	}
	switch proxies, acked := k.programmed.Delivered(gateway, 0); {
	case proxies == 0:
		k.report(gateway, "no proxy is connected")
	case !acked:
		k.report(gateway, "its proxies have not acknowledged the change yet")
	default:
		k.board.Replace(status.Instance(status.Acks, gateway))
	}
}

// report reports that the policies of a Gateway are not programmed. The caller holds k.mu.
func (k *acknowledged) report(gateway, why string) {
	ref := store.RefOf(store.Gateways, gateway)
	parent := report.Parent{
		Ref: report.ParentRef{Group: ref.Group, Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name},
		Conditions: []report.Condition{report.NotProgrammed("Pending",
			fmt.Sprintf("Gateway %s: %s", gateway, why))},
	}
	var out []report.Report
	for _, policy := range k.policies[gateway] {
		out = append(out, report.Report{Owner: policy, Parents: []report.Parent{parent}})
	}
	k.board.Replace(status.Instance(status.Acks, gateway), out...)
}

// versionOf returns a policy's generation, or a digest of the spec for a policy from a file.
func versionOf(p *v1alpha1.AccessPolicy) int64 {
	if p.Generation != 0 {
		return p.Generation
	}
	h := fnv.New64a()
	text, _ := json.Marshal(p.Spec) // cannot fail: the spec has only strings and numbers
	_, _ = fmt.Fprint(h, string(text), p.Spec.Nulls, p.Spec.Closed, p.Spec.Former)
	return int64(h.Sum64() >> 1)
}
