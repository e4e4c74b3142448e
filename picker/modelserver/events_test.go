package modelserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/picker/kvevents"
	"github.com/penstock-project/penstock/picker/prefix"
	"github.com/penstock-project/penstock/xds/xdstest/freeport"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

type subscribed struct {
	index  *prefix.Index
	server *prefix.Server
	pool   *kvevents.Subscription
}

func subscribe(t *testing.T, c kvevents.Config, src kvevents.Source) *subscribed {
	t.Helper()
	s := &subscribed{index: prefix.New(prefix.Config{Seed: 1})}
	src.Server = netip.MustParseAddrPort("127.0.0.1:8000")
	s.server = s.index.Server(src.Server)
	c.Prefixes = s.index
	subscriber := kvevents.New(c)
	s.pool = subscriber.Subscribe([]kvevents.Source{src})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = subscriber.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return s
}

func (s *subscribed) cached(tokens []uint32, model string) int {
	var prompt prefix.Tokens
	for _, id := range tokens {
		prompt.Add(id)
	}
	exact, cached := prompt.Exact(), []int32{-1}
	s.index.MatchReports(&exact, model, []*prefix.Server{s.server}, cached)
	return int(cached[0])
}

func (s *subscribed) eventually(t *testing.T, what string, tokens []uint32, model string, want int) {
	t.Helper()
	poll.NoError(t, what, poll.Limit, func() error {
		if got := s.cached(tokens, model); got != want {
			problem, known := s.pool.Problem(netip.MustParseAddrPort("127.0.0.1:8000"))
			return fmt.Errorf("%d tokens, want %d (%s %v)", got, want, problem, known)
		}
		return nil
	})
}

func freePort(t *testing.T) netip.AddrPort {
	t.Helper()
	port, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	return netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(port))
}

func postJSON(t *testing.T, url string, body, answer any) {
	t.Helper()
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.Post(url, "application/json", strings.NewReader(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	if response.StatusCode != 200 {
		t.Fatalf("%s: got %s %s, want 200", url, response.Status, text)
	}
	if answer != nil {
		if err := json.Unmarshal(text, answer); err != nil {
			t.Fatalf("%s: %v in %s", url, err, text)
		}
	}
}

func words(n int, word string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "%s%d ", word, i)
	}
	return b.String()
}

func TestKVEvents_OfSimShowItsPrefixCache(t *testing.T) {
	events, replay, at := freePort(t), freePort(t), freePort(t)
	server, err := New(Config{
		Model: "base", LoRAs: []string{"sql"}, PrefixCaching: true, KVCacheTokens: 2048, Listen: []string{at.String()},
		KVEvents: events.String(), KVEventsReplay: replay.String(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	if _, err := server.Listen(); err != nil {
		t.Fatal(err)
	}
	go func() { done <- server.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	url := "http://" + at.String()

	type usageOf struct {
		Usage struct {
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	chat := func(model, text string) (cached int, tokens []uint32) {
		body := map[string]any{"model": model, "max_tokens": 1,
			"messages": []any{map[string]any{"role": "user", "content": text}}}
		var answer usageOf
		postJSON(t, url+"/v1/chat/completions", body, &answer)
		var ids rendered
		postJSON(t, url+"/v1/chat/completions/render", body, &ids)
		return answer.Usage.Details.Cached, ids.TokenIDs
	}
	// The first prompt is read before the subscription, so only the replay has it.
	_, first := chat("base", words(512, "a"))
	s := subscribe(t, kvevents.Config{}, kvevents.Source{Publisher: events, Replay: replay})
	s.eventually(t, "the replayed prompt", first, "base", 512)
	if cached, _ := chat("base", words(512, "a")); cached != 511 {
		t.Errorf("%d tokens of the same prompt were cached, want all but the last", cached)
	}
	_, adapted := chat("sql", words(256, "b"))
	s.eventually(t, "the adapter's prompt", adapted, "sql", 256)
	s.eventually(t, "the adapter's prompt at the base model", adapted, "base", 0)
	chat("base", words(768, "c"))
	_, large := chat("base", words(768, "d")) // evicts the second half of the first prompt
	s.eventually(t, "the large prompt", large, "base", 768)
	s.eventually(t, "the prompt that is evicted in part", first, "base", 256)
	postJSON(t, url+"/reset_prefix_cache", nil, nil)
	s.eventually(t, "after a reset", large, "base", 0)
}
