package picker

import (
	mathrand "math/rand/v2"

	"github.com/penstock-project/penstock/picker/prefix"
	"github.com/penstock-project/penstock/picker/tokenize"
)

// prompt finds the length of a request's prompt. If model servers report their caches, prompt also
// finds the token IDs: in the processor's answer, or else by a call to a model server. It ends no
// pick.
func prompt(k *pick) {
	if k.working == nil {
		return
	}
	k.useTokens()
	k.renderPrompt()
	k.model, k.tokens = k.request.Facts.Model, k.query.Tokens
	if name := k.request.Headers.Header(modelHeader); k.model == "" && len(name) > 0 &&
		(k.request.Reported() || k.pool.TrustHeaders) {
		k.model = string(name) // the gateway, not a client, has set the header
	}
}

func prompted(r *Record) string {
	if r.Tokens == 0 {
		return ""
	}
	return several(r.Tokens, "token")
}

// useTokens takes the prompt's length and tokens from the processor's answer. The picked server
// gets the same tokens. The picker compares them with the servers' cache reports, but not for a
// prompt with images: the reported hashes then also depend on the images.
func (k *pick) useTokens() {
	found, q := k.processed.Answer, &k.query
	if found == nil || found.Count == 0 {
		return
	}
	q.Tokens = min(found.Count, prefix.MaxTokens)
	if k.pool.KVEvents == nil || k.request.Facts.Media || !k.pool.reports() {
		return
	}
	var tokens prefix.Tokens
	for id := range found.IDs() {
		tokens.Add(id)
	}
	exact := tokens.Exact().Clone()
	exact.Salt = q.Exact.Salt
	q.Exact = exact
}

func (k *pick) renderPrompt() {
	pool, r, q := k.pool, k.request, &k.query
	if pool.KVEvents == nil || pool.KVEvents.Render == 0 || len(q.Exact.Ends) > 0 || r.Facts.Prompt == 0 ||
		!tokenize.Known(r.Facts.Kind) ||
		q.Tokens < prefix.End(0) || !pool.reports() {
		return
	}
	prompt := tokenize.Prompt{Key: r.Facts.Prompt, Kind: r.Facts.Kind, Body: r.Body, Salt: q.Exact.Salt,
		IDs: pool.dynamo() != nil}
	if tokens, ok := k.picker.prompts.renderer.Tokens(k.ctx, func() string { return k.picker.renderBase(pool) },
		&prompt, pool.rendering, pool.KVEvents.Render); ok {
		q.Exact, q.Tokens, k.ids = tokens.Exact, tokens.Count, tokens.IDs
	}
}

func (p *Picker) renderBase(pool *pool) string {
	endpoints := pool.snapshot.Endpoints
	first := mathrand.IntN(max(len(endpoints), 1))
	for i := range endpoints {
		e := &endpoints[(first+i)%len(endpoints)]
		if !e.Draining && !e.State().Failing && p.config.Addresses.Never(e.Addr.Addr()) == "" {
			return pool.rendering.URL(e.Addr)
		}
	}
	return ""
}

// modelHeader is the header with the request's model on Gateways that route by the model
// (translator/envoy, scan.lua). On other Gateways, a client may set the header. This affects only
// the choice of an endpoint.
const modelHeader = "x-gateway-model-name"
