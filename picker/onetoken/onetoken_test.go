package onetoken

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

const token = `{"choices":[{"text":"1"}],"usage":{"completion_tokens":1}}`

// one has the answer of a server with completions only; both also has one for chat completions.
func one(completions string) map[string]string {
	return map[string]string{"/v1/completions": completions}
}

func both(completions, chat string) map[string]string {
	return map[string]string{"/v1/completions": completions, "/v1/chat/completions": chat}
}

// A probe requests one of the server's models. It distinguishes a server that denies probes from a
// server that sends no token.
func TestSilent_ProbeFindsAToken(t *testing.T) {
	for name, tt := range map[string]struct {
		model  string
		list   string            // answer of /v1/models
		paths  map[string]string // by path: status and body; "" hangs
		want   string            // the error; "" with a token
		denied bool
		asked  string // the requested model
	}{
		"completions":               {model: "m", paths: one("200 " + token), asked: "m"},
		"chat alone":                {model: "m", paths: both("404 {}", "200 "+token), asked: "m"},
		"a model of the list":       {list: `{"data":[{"id":"a"},{"id":"b"}]}`, paths: one("200 " + token), asked: "a"},
		"no list of models":         {list: `x`, paths: one("200 " + token)},
		"no API":                    {want: "denies probes: 404 for POST /v1/chat/completions", denied: true},
		"a credential is wanted":    {paths: both("401 {}", "401 {}"), want: "401", denied: true},
		"not implemented":           {paths: both("501 {}", "501 {}"), want: "501", denied: true},
		"a redirect":                {paths: both("302 {}", "302 {}"), want: "302", denied: true},
		"an error":                  {paths: one("500 {}"), want: "answered 500"},
		"too busy":                  {paths: one("429 {}"), want: "answered 429"},
		"an error with status 200":  {paths: one(`200 {"error":{}}`), want: "no choices"},
		"another page":              {paths: one("200 <html>"), want: "no choices"},
		"an answer without end":     {paths: one("200 " + strings.Repeat(" ", maxAnswer+1)), want: "more than"},
		"headers and nothing else":  {model: "m", paths: one(""), want: "deadline", asked: "m"},
		"a list that never arrives": {list: "hangs", paths: one("200 " + token), want: "deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			asked := ""
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v1/models" && tt.list != "hangs" {
					_, _ = io.WriteString(w, tt.list)
					return
				}
				var q question
				_ = json.NewDecoder(r.Body).Decode(&q)
				answer, ok := tt.paths[r.URL.Path]
				switch {
				case answer == "" && (ok || tt.list == "hangs"):
					asked = q.Model
					w.WriteHeader(http.StatusOK)
					_ = http.NewResponseController(w).Flush()
					<-r.Context().Done()
				case !ok:
					w.WriteHeader(http.StatusNotFound)
				default:
					asked = q.Model
					status, body := 0, ""
					_, _ = fmt.Sscan(answer, &status)
					_, body, _ = strings.Cut(answer, " ")
					if q.MaxTokens != 1 || (q.Prompt == "") == (len(q.Messages) == 0) {
						t.Errorf("asked %+v, want one token, and either a prompt or messages", q)
					}
					w.WriteHeader(status)
					_, _ = io.WriteString(w, body)
				}
			}))
			t.Cleanup(server.Close)
			limit := 20 * time.Second
			if tt.want == "deadline" {
				limit = 50 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			err := Ask(ctx, &http.Transport{DisableKeepAlives: true}, server.URL, tt.model)
			found := err == nil && tt.want == "" ||
				err != nil && tt.want != "" && strings.Contains(err.Error(), tt.want)
			if !found || errors.Is(err, ErrDenied) != tt.denied {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if tt.want != "deadline" && asked != tt.asked {
				t.Errorf("asked for model %q, want %q", asked, tt.asked)
			}
		})
	}
}
