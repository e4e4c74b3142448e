package modelserver

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

type stored map[string][]uint32

func (s stored) Get(_ context.Context, key, _ string) ([]uint32, error) {
	if tokens, ok := s[key]; ok {
		return tokens, nil
	}
	return nil, errors.New("no such key")
}

func TestTokens_BodyAndStoreTakeThePlaceOfWords(t *testing.T) {
	const key = "known"
	store := stored{key: {1, 2, 3, 4, 5}}
	with, without := Config{Model: "m", PrefixCaching: true, Tokens: store}, Config{Model: "m"}
	for _, c := range []struct {
		name   string
		cfg    Config
		fields string
		key    string
		from   string
		prompt int
	}{
		{"words", with, ``, "", "", 2},
		{"token IDs in the body", with, `,"token_ids":[7,8,9]`, "", "body", 3},
		{"token IDs in the body, no token store", without, `,"token_ids":[7,8,9]`, key, "body", 3},
		{"a key", with, ``, key, "store", 5},
		{"a key that the token store does not have", with, ``, "expired", "prompt", 2},
		{"a key without a token store", without, ``, key, "", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := New(c.cfg)
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions",
				strings.NewReader(`{"messages":[{"role":"user","content":"two words"}]`+c.fields+`}`))
			if c.key != "" {
				r.Header.Set(TokensKeyHeader, c.key)
			}
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			var a struct{ Usage usage }
			if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil || w.Code != http.StatusOK {
				t.Fatalf("%d %s: %v, want %d", w.Code, w.Body, err, http.StatusOK)
			}
			if got := w.Header().Get(TokensFromHeader); got != c.from || a.Usage.PromptTokens != c.prompt {
				t.Errorf("%d tokens from %q, want %d from %q", a.Usage.PromptTokens, got, c.prompt, c.from)
			}
		})
	}
	s, err := New(without)
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	if s.ServeHTTP(w,
		httptest.NewRequest(http.MethodPost, "/v1/completions",
			strings.NewReader(`{"prompt":"a","token_ids":[-1]}`))); w.Code != http.StatusBadRequest {
		t.Errorf("an invalid token ID: %d, want %d", w.Code, http.StatusBadRequest)
	}
}

// A stream's headers wait for the tokenizer, which reads one prompt at a time.
func TestTokenizerRate_DelaysHeadersOfOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{Model: "base", TokenizerRate: 10, PrefillRate: 1})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		took := make(chan time.Duration, 3)
		for range 3 {
			go func() {
				if err := s.tokenize(t.Context(), 20); err != nil {
					t.Error(err)
				}
				took <- time.Since(began)
			}()
		}
		for i := range 3 {
			if d := <-took; d != time.Duration(i+1)*2*time.Second {
				t.Errorf("prompt %d was tokenized after %v, want %v", i, d, time.Duration(i+1)*2*time.Second)
			}
		}
	})
}
