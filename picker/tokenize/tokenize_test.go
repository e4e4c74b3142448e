package tokenize

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/mem"

	"github.com/penstock-project/penstock/picker/prefix"
	"github.com/penstock-project/penstock/picker/request"
	"github.com/penstock-project/penstock/picker/upstream"
	"github.com/penstock-project/penstock/picker/upstream/upstreamtest"
)

func tokens(n int) (text string, want prefix.Exact) {
	var b strings.Builder
	var t prefix.Tokens
	for i := range n {
		fmt.Fprintf(&b, ", %d", i*31)
		t.Add(uint32(i * 31))
	}
	return "[" + b.String()[2:] + "]", t.Exact().Clone()
}

func body(text string) mem.BufferSlice { return mem.BufferSlice{mem.SliceBuffer(text)} }

func server(t *testing.T, answer string) (base func() string, calls *atomic.Int32) {
	t.Helper()
	calls = new(atomic.Int32)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		got, _ := io.ReadAll(r.Body)
		if answer == "" || string(got) != "the body" || !strings.HasSuffix(r.URL.Path, "/render") {
			http.Error(w, "no", http.StatusNotFound)
			return
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	return func() string { return s.URL }, calls
}

func TestRender_ServersThatSpeakH2CAreAsked(t *testing.T) {
	list, _ := tokens(1000)
	_, addr := upstreamtest.H2C(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"token_ids": `+list+`}`)
	}))
	pool := &Pool{Protocol: upstream.Protocol{HTTP2: true}}
	prompt := &Prompt{Key: 7, Kind: request.ChatCompletions, Body: body("the body")}
	base := func() string { return pool.URL(addr) }
	if all, ok := New(Config{}).Tokens(t.Context(), base, prompt, pool, time.Minute); !ok || all.Count != 1000 {
		t.Errorf("%d tokens, %t; want 1000, true", all.Count, ok)
	}
}

func TestRender_TokensAreReadAndKept(t *testing.T) {
	list, want := tokens(1000)
	for kind, answer := range map[request.Kind]string{
		request.ChatCompletions: `{"request_id": "x", "token_ids": ` + list +
			`, "features": null, "sampling_params": {"max_tokens": 5}, "model": "m", "stream": false}`,
		request.Completions: `  [ {"token_ids": ` + list + `, "prompt": "a \"quoted\" text"} ]`,
	} {
		base, calls := server(t, answer)
		r := New(Config{})
		for range 3 {
			all, ok := r.Tokens(context.Background(), base,
				&Prompt{Key: 7, Kind: kind, Body: body("the body"), Salt: 5}, new(Pool), time.Minute)
			got, n := all.Exact, all.Count
			if !ok || n != 1000 || all.IDs != nil || got.Salt != 5 || len(got.Ends) != len(want.Ends) ||
				got.Ends[14] != want.Ends[14] {
				t.Fatalf("kind %d: %v %d tokens, %d ends, want %d", kind, ok, n, len(got.Ends), len(want.Ends))
			}
		}
		if calls.Load() != 1 {
			t.Errorf("%d calls, want 1", calls.Load())
		}
	}
}

func TestRender_IDsAreKeptWithinBounds(t *testing.T) {
	list, _ := tokens(100_000)
	base, calls := server(t, `[{"prompt": "[1]", "token_ids": `+list+`}]`)
	r := New(Config{})
	ask := func(key uint64, ids bool) Tokens {
		t.Helper()
		got, ok := r.Tokens(context.Background(), base,
			&Prompt{Key: key, Kind: request.Completions, Body: body("the body"), IDs: ids}, new(Pool), time.Minute)
		if !ok || got.Count != 100_000 {
			t.Fatal(ok, got.Count)
		}
		return got
	}
	ask(1, false)
	want := strings.ReplaceAll(list, " ", "")
	for range 2 {
		if got := ask(1, true); string(got.IDs) != want {
			t.Fatalf("%d bytes, want %d", len(got.IDs), len(want))
		}
	}
	if calls.Load() != 2 {
		t.Errorf("%d calls, want 2", calls.Load())
	}
	for key := range uint64(2 * maxIDs / len(want)) {
		ask(2+key, true)
	}
	if r.held > maxIDs || r.held < maxIDs/2 {
		t.Errorf("%d bytes of %d prompts are kept, want at most %d and at least %d",
			r.held, r.prompts.Len(), maxIDs, maxIDs/2)
	}
}

func TestRender_WhatHasNoTokensIsApproximate(t *testing.T) {
	list, _ := tokens(100)
	for name, answer := range map[string]string{
		"no such endpoint": "",
		"no tokens":        `{"prompt": "text"}`,
		"no JSON":          `token_ids`,
		"an image":         `{"token_ids": ` + list + `, "features": {"mm_hashes": {"image": ["x"]}}}`,
		"too large":        `{"token_ids": [` + strings.Repeat("1,", 2<<20) + `1]}`,
	} {
		base, _ := server(t, answer)
		if _, ok := New(Config{}).Tokens(context.Background(), base,
			&Prompt{Kind: request.ChatCompletions, Body: body("the body")}, new(Pool), time.Minute); ok {
			t.Errorf("%s: there are tokens, want none", name)
		}
	}
}

func TestRender_LateServerDelaysNoPickBeyondItsDeadline(t *testing.T) {
	release := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer s.Close()
	defer close(release)
	r, pool := New(Config{Concurrent: 1}), new(Pool)
	ask := func() bool {
		_, ok := r.Tokens(context.Background(), func() string { return s.URL },
			&Prompt{Kind: request.ChatCompletions, Body: body("the body")}, pool, time.Millisecond)
		return ok
	}
	for range failures + 10 {
		if ask() {
			t.Fatal("there are tokens")
		}
	}
	if r.Failed.Load() != failures || r.Skipped.Load() != 10 {
		t.Errorf("%d calls failed and %d were skipped, want %d and 10", r.Failed.Load(), r.Skipped.Load(), failures)
	}
	pool = new(Pool)
	r.calls <- struct{}{}
	if ask(); r.Skipped.Load() != 11 {
		t.Error("a call waits for another one's end")
	}
}

func TestRender_KeptPromptsAreBounded(t *testing.T) {
	r := New(Config{Prompts: 3})
	for key := range uint64(10) {
		r.keep(&prompt{key: key})
		r.find(0)
	}
	if r.prompts.Len() != 3 || r.find(0) == nil || r.find(9) == nil || r.find(7) != nil {
		t.Errorf("%d prompts are kept, want 3, of them those used last", r.prompts.Len())
	}
}
