package schedule

import "github.com/penstock-project/penstock/manifests/endpointpicker"

// activeRequest implements llm-d's active-request-scorer: 1 for up to IdleThreshold requests in
// flight. For more requests n, the score is MaxBusyScore x (most - n) / most, where most is the
// candidates' maximum of n.
type activeRequest struct{ *endpointpicker.ActiveRequest }

func (a activeRequest) add(v view, weight float64) {
	var most int64
	for i := range v.c {
		most = max(most, v.state(i).InFlight)
	}
	for i := range v.c {
		score := 1.0
		if n := v.state(i).InFlight; n > int64(a.IdleThreshold) {
			score = float64(most-n) / float64(most) * a.MaxBusyScore
		}
		v.c[i].Score += weight * score
	}
}

// tokenLoad implements llm-d's token-load-scorer: 1 for no tokens to read, decreasing to 0 at
// QueueThresholdTokens. The tokens to read are the uncached tokens of this prompt and of requests
// that wait for their first token.
type tokenLoad struct{ *endpointpicker.TokenLoad }

func (t tokenLoad) add(v view, weight float64) {
	for i := range v.c {
		tokens := float64(v.state(i).Unread) + float64(max(v.r.Tokens-v.c[i].Cached, 0))
		v.c[i].Score += weight * within(1-tokens/float64(t.QueueThresholdTokens))
	}
}

type sessionAffinity struct{}

func (sessionAffinity) add(v view, weight float64) {
	at := v.r.Session.At
	if !at.IsValid() {
		return
	}
	for i := range v.c {
		if v.c[i].Endpoint.Addr == at {
			v.c[i].Score += weight
		}
	}
}

// prefixCache implements llm-d's prefix-cache-scorer: the score is the cached part of the prompt's
// whole blocks. A second score, of weight MatchLengthWeight, is the square of cached tokens /
// MatchLengthScaleTokens.
type prefixCache struct{ *endpointpicker.PrefixCache }

func (p prefixCache) add(v view, weight float64) {
	if len(v.r.Chain)+len(v.r.Exact.Ends) == 0 {
		return
	}
	for i := range v.c {
		score := (1 - p.MatchLengthWeight) * v.cachedPart(i)
		if p.MatchLengthWeight > 0 {
			length := min(float64(v.c[i].Cached)/float64(p.MatchLengthScaleTokens), 1)
			score += p.MatchLengthWeight * length * length
		}
		v.c[i].Score += weight * score
	}
}
