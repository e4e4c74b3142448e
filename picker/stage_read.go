package picker

import (
	"fmt"
	"slices"

	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/schedule"
)

// read sets k.policy: which part of the request's body extproc reads for the pick. It ends no pick.
// If the policy is Unavailable, the gateway calls another picker.
func read(k *pick) {
	pool := k.picker.pool(k.request.Pool)
	if pool == nil {
		return
	}
	k.rules = pool.rules
	k.policy = k.picker.reads(pool)
	if k.request.Exact && pool.Relay == nil {
		k.policy.Usage, k.policy.Prompts = true, true
	}
}

func (p *Picker) reads(pool *pool) extproc.BodyPolicy {
	if pool.Relay != nil && !pool.Relay.Listed && p.config.Learner != nil && p.config.Learner.Isolated() {
		return extproc.BodyPolicy{Unavailable: true}
	}
	policy := extproc.BodyPolicy{
		UserMessages: pool.UserMessages,
		Limit:        pool.BodyLimit,
		Wait:         pool.Pool.Body == BodyBuffered || pool.Relay != nil,
		Prompts:      pool.Pool.Body == BodyPrompts,
		Whole:        pool.Relay != nil,
		Keep:         pool.KVEvents != nil && pool.KVEvents.Render > 0,
		Rewrite:      pool.rules != nil && pool.rules.rewrites && pool.Relay == nil,
		Process:      pool.processor != nil,
		TrustHeaders: pool.TrustHeaders,
		OwnWorkers:   pool.dynamo() != nil && pool.Relay == nil,
	}
	if pool.Strategy == schedule.Plugins && pool.Relay == nil && needsPrompts(pool.Plugins) {
		policy.Valid, policy.Keep = true, true
	}
	switch {
	case p.config.Protocol.Duplex:
		policy.Assume = extproc.ModeFullDuplexStreamed
	case pool.Pool.Body != BodyNone:
		policy.Assume = extproc.ModeBuffered
	}
	return policy
}

func needsPrompts(profile *endpointpicker.Profile) bool {
	return profile != nil && len(profile.Scorers) > 0 &&
		!slices.ContainsFunc(profile.Scorers, func(in endpointpicker.Instance) bool {
			return in.Type != endpointpicker.PrefixCacheScorer
		})
}

func readSoMuch(r *Record) string {
	if r.Bytes == 0 {
		return "headers alone"
	}
	return fmt.Sprintf("%d bytes of the body", r.Bytes)
}
