package picker

import (
	"testing"
	"time"

	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/prefix"
)

func cachedTokens(p *Picker, at string, chain []uint64) int32 {
	cached := make([]int32, 1)
	p.prompts.prefixes.Match(chain, []*prefix.Server{p.loadOf("ns/pool", at).Prefixes()}, cached)
	return cached[0]
}

func chainOf(first uint64, blocks int) (c []uint64) {
	for i := range uint64(blocks) {
		c = append(c, first+i)
	}
	return c
}

// A server that denies a request has not read the prompt, which then no longer counts as cached
// there.
func TestDenial_LeavesNothingCached(t *testing.T) {
	const sent, answered = time.Millisecond, 20 * time.Millisecond
	for _, c := range []struct {
		what   string
		stream bool
		end    accesslog.Entry
		cached bool
	}{
		{"served", true, accesslog.Entry{Served: first, Status: 200, Sent: sent, Headers: answered, Body: true}, true},
		{"denied", true, accesslog.Entry{Served: first, Status: 400, Sent: sent, Headers: answered, Body: true}, false},
		{"failed", false, accesslog.Entry{Served: first, Status: 500, Sent: sent, Headers: answered}, false},
		{"not connected", false, accesslog.Entry{Status: 503}, false},
		{"reset", false, accesslog.Entry{Served: first, Status: 503, Sent: sent}, false},
		{"canceled before the first byte", true, accesslog.Entry{Served: first, Sent: sent, Canceled: true}, false},
		{"canceled before the end of an answer that is no stream", false,
			accesslog.Entry{Served: first, Sent: sent, Canceled: true}, true},
		{"timed out before the end of an answer that is no stream", false,
			accesslog.Entry{Served: first, Sent: sent, Status: 504}, true},
		{
			"canceled later", true, accesslog.Entry{
				Served: first, Status: 200, Sent: sent, Headers: answered, Canceled: true,
			}, true,
		},
		{
			"served by another one", true, accesslog.Entry{
				Served: second, Status: 200, Sent: sent, Headers: answered, Body: true,
			}, false,
		},
	} {
		p := runPicker(t, Config{})
		setPools(t, p, Pool{ID: poolID("ns/pool"), Fallbacks: 1, Endpoints: specs(first, second)})
		chain := chainOf(1000, 20)
		r := longPrompt(1200, chain...)
		r.Facts.Stream = c.stream
		a := p.Pick(t.Context(), r)
		at := a.Endpoints[0] // one of two equal servers
		switch c.end.Served {
		case first:
			c.end.Served = at
		case second:
			c.end.Served = a.Endpoints[1]
		}
		if cachedTokens(p, at, chain) == 0 {
			t.Fatalf("%s: the prompt is not cached from the pick on", c.what)
		}
		c.end.Lease, c.end.Gateway = a.Lease.String(), "ns/gw"
		open := c.end
		open.Open, open.Canceled = true, false
		p.Log(open)
		p.Log(c.end)
		if got := cachedTokens(p, at, chain) > 0; got != c.cached {
			t.Errorf("%s: cached %v, want %v", c.what, got, c.cached)
		}
	}
}

// If a request with a prefill server is denied, its prompt no longer counts as cached at the two
// servers. The blocks of earlier prompts still count.
func TestDenial_LeavesWhatWasCachedBefore(t *testing.T) {
	p := runPicker(t, Config{})
	setPools(t, p,
		Pool{ID: poolID("ns/pool"), Strategy: "plugins", Plugins: parsed(t, stagesDoc(allStages)),
			Endpoints: withRoles(first, "decode", second, "prefill")})
	long := chainOf(1000, 40)
	short := long[:20]
	for _, c := range []struct {
		chain  []uint64
		status int
	}{{short, 200}, {long, 400}} {
		a := p.Pick(t.Context(), longPrompt(64*len(c.chain), c.chain...))
		p.Log(accesslog.Entry{Lease: a.Lease.String(), Gateway: "ns/gw", Served: first, Status: c.status, Sent: 1,
			Headers: 2, Body: true})
	}
	for _, at := range []string{first, second} {
		if got, want := cachedTokens(p, at, long), int32(prefix.End(len(short)-1)); got != want {
			t.Errorf("%s: %d tokens cached, want %d as for the first prompt", at, got, want)
		}
	}
}

func TestDenial_OfPromptLargerThanTheCacheEvictsNothing(t *testing.T) {
	var sent []Sent
	p := runPicker(t, Config{Sharing: shared{sent: func(s Sent) { sent = append(sent, s) }}})
	setPools(t, p, Pool{ID: poolID("ns/pool"), Endpoints: specs(first)})
	p.loadOf("ns/pool", first).Prefixes().SetCapacity(6400)
	small, large := chainOf(1000, 20), chainOf(9000, prefix.MaxBlocks)
	p.Pick(t.Context(), longPrompt(1280, small...))
	p.Pick(t.Context(), longPrompt(8100, large[:120]...))
	p.Pick(t.Context(), longPrompt(200_000, large...))
	if cachedTokens(p, first, small) == 0 || cachedTokens(p, first, large) != 0 || len(sent) != 1 {
		t.Errorf("%d tokens of the small prompt and %d of the large ones are cached, %d picks are published; want "+
			"some, none, 1", cachedTokens(p, first, small), cachedTokens(p, first, large), len(sent))
	}
	// The prompt may have fewer tokens than estimated.
	p.Pick(t.Context(), longPrompt(6500, large[:100]...))
	if got := cachedTokens(p, first, large); got != 6400 {
		t.Errorf("%d tokens of a prompt of about the cache's size are cached, want 6400", got)
	}
}
