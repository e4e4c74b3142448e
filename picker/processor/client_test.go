package processor

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/mem"

	"github.com/penstock-project/penstock/picker/dial"
)

func body(text string) mem.BufferSlice {
	half := len(text) / 2
	return mem.BufferSlice{mem.SliceBuffer(text[:half]), mem.SliceBuffer(text[half:])}
}

// closed is an address without a listener, so that the next address is used.
const closed = "127.0.0.1:1"

func at(addresses ...string) (out []dial.Address) {
	for _, a := range addresses {
		out = append(out, dial.Address{AddrPort: netip.MustParseAddrPort(a), Cleartext: true})
	}
	return out
}

func service(t *testing.T, answer func(w http.ResponseWriter, sent string)) *Client {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		if r.URL.Path != Path || r.Host != "processor" || r.Method != http.MethodPost ||
			int64(len(text)) != r.ContentLength {
			http.Error(w, "no", http.StatusNotFound)
			return
		}
		answer(w, string(text))
	}))
	t.Cleanup(s.Close)
	c, err := New(Config{
		Host: "processor", Addresses: at(closed, s.Listener.Addr().String()),
		Timeout: time.Minute, // a slow machine needs more than the default for a huge answer
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestProcess_BodyIsSentAsTheClientWroteIt(t *testing.T) {
	var got string
	c := service(t, func(w http.ResponseWriter, sent string) { got = sent; _, _ = io.WriteString(w, `{}`) })
	headers := map[string]string{"x-request-id": `a"b`}
	for _, tt := range []struct {
		body  string
		route bool
		want  string
	}{
		{`{"model": "m", "n": 12345678901234567890}`, false,
			`{"request_body":{"model": "m", "n": 12345678901234567890},"headers":{"x-request-id":"a\"b"}}`},
		{` {"a":1,"a":2}`, true, `{"request_body": {"a":1,"a":2,"route":true},"headers":{"x-request-id":"a\"b"}}`},
		{
			"{\"route\":\"x\" } \n", true,
			`{"request_body":{"route":"x" ,"route":true},"headers":{"x-request-id":"a\"b"}}`,
		},
		{`{ }`, true, `{"request_body":{ "route":true},"headers":{"x-request-id":"a\"b"}}`},
	} {
		if _, outcome, err := c.Process(t.Context(),
			&Request{Body: body(tt.body), Route: tt.route, Headers: headers}); outcome != Processed {
			t.Fatalf("%s: %s %v, want %s", tt.body, outcome, err, Processed)
		}
		if got != tt.want || !json.Valid([]byte(got)) {
			t.Errorf("%s: the service got\n%s, want\n%s", tt.body, got, tt.want)
		}
	}
	if _, outcome, _ := c.Process(t.Context(), &Request{Body: body(`[1]`), Route: true}); outcome != Skipped {
		t.Errorf("a body that is no object: got %s, want %s", outcome, Skipped)
	}
}

func TestProcess_AnswerIsReadAndChecked(t *testing.T) {
	for text, want := range map[string]*Answer{
		`{"worker_address": "worker-3:8080", "token_key": "cache_key_abc123"}`: {
			Worker: "worker-3:8080", TokenKey: "cache_key_abc123",
		},
		`{"token_value": "[1,15043, 29892]", "more": {"a": []}}`: {
			Tokens: []byte("[1,15043, 29892]"), Count: 3,
		},
		`{"token_value": " [ ] "}`: {Tokens: []byte("[ ]")},
		`{"token_value": "[0]"}`:   {Tokens: []byte("[0]"), Count: 1},
		`{}`:                       {},
		`{"token_value": "[4294967295]"}`: {
			Tokens: []byte("[4294967295]"), Count: 1,
		},
		`{"token_value": "[4294967296]"}`:                        nil,
		`{"token_value": "[01]"}`:                                nil,
		`{"token_value": "[1 2]"}`:                               nil,
		`{"token_value": "[1,]"}`:                                nil,
		`{"token_value": "[,1]"}`:                                nil,
		`{"token_value": "[-1]"}`:                                nil,
		`{"token_value": "[1.5]"}`:                               nil,
		`{"token_value": "1,2"}`:                                 nil,
		`{"token_value": "["}`:                                   nil,
		`{"token_value": "[1],\"x\":[2]"}`:                       nil,
		`{"token_value": [1]}`:                                   nil,
		`{"token_key": "a\nb"}`:                                  nil,
		`{"token_key": "ä"}`:                                     nil,
		`{"token_key": "` + strings.Repeat("x", 1025) + `"}`:     nil,
		`{"worker_address": "` + strings.Repeat("x", 257) + `"}`: nil,
		`[]`:                       nil,
		`null x`:                   nil,
		`null`:                     nil,
		` null `:                   nil,
		`1`:                        nil,
		strings.Repeat("[", 20000): nil,
	} {
		got, err := read([]byte(text))
		if want == nil {
			if err == nil {
				t.Errorf("%.60s is read as %+v, want an error", text, got)
			}
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil || len(slices.Collect(got.IDs())) != want.Count {
			t.Errorf("%.60s: got %v, want no error and %d IDs; (-want +got):\n%s", text, err, want.Count, diff)
		}
	}
}

func TestProcess_FailuresOpenTheBreaker(t *testing.T) {
	var calls atomic.Int32
	works := &atomic.Bool{}
	c := service(t, func(w http.ResponseWriter, _ string) {
		if calls.Add(1); !works.Load() {
			http.Error(w, "no", http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, `{}`)
	})
	for range failures {
		if _, outcome, err := c.Process(t.Context(), &Request{Body: body("{}")}); outcome != Failed || err == nil {
			t.Fatalf("got %s %v, want %s", outcome, err, Failed)
		}
	}
	if _, outcome, err := c.Process(t.Context(), &Request{Body: body("{}")}); outcome != Skipped || err == nil ||
		!c.Open() || calls.Load() != failures {
		t.Errorf("after %d failures: got %s %v, %d calls; want %s, without a call",
			failures, outcome, err, calls.Load(), Skipped)
	}
}

func TestProcess_HugeAnswerIsAnError(t *testing.T) {
	c := service(t, func(w http.ResponseWriter, _ string) {
		_, _ = io.WriteString(w, `{"token_value": "[`)
		for range 100 {
			if _, err := io.WriteString(w, strings.Repeat("1,", 512<<10)); err != nil {
				return
			}
		}
	})
	if _, outcome, err := c.Process(t.Context(), &Request{Body: body("{}")}); outcome != Failed ||
		!strings.Contains(err.Error(), "more than") {
		t.Errorf(`an answer of 100 MB: got %s %v, want %s with "more than"`, outcome, err, Failed)
	}
}

func TestProcess_HangingServiceCostsItsTimeAndThenNothing(t *testing.T) {
	stop := make(chan struct{})
	c := service(t, func(http.ResponseWriter, string) { <-stop })
	t.Cleanup(func() { close(stop) })
	c.timeout = 50 * time.Millisecond
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if _, outcome, _ := c.Process(ctx, &Request{Body: body("{}")}); outcome != Canceled {
		t.Errorf("a client that has left: %s, want %s", outcome, Canceled)
	}
	for range failures {
		if _, outcome, err := c.Process(t.Context(), &Request{Body: body("{}")}); outcome != Failed ||
			err.Error() != "no answer in 50ms" {
			t.Errorf("got %s %v, want %s: no answer in 50ms", outcome, err, Failed)
		}
	}
	if _, outcome, _ := c.Process(t.Context(), &Request{Body: body("{}")}); outcome != Skipped {
		t.Errorf("with the breaker open: %s, want %s", outcome, Skipped)
	}
}

func TestProcess_BreakerTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []string
		c, err := New(Config{OnOpen: func(reason string) { calls = append(calls, "open: "+reason) },
			OnClose: func() { calls = append(calls, "closed") }})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if len(calls) != 2 || calls[0] != "open: the service has no address" || calls[1] != "closed" {
				t.Errorf("calls: %q, want one that the service has no address, and closed", calls)
			}
		}()
		for range failures {
			c.Process(t.Context(), &Request{Body: body("{}")}) //nolint:errcheck // it fails
		}
		if !c.Open() {
			t.Fatal("the breaker is closed")
		}
		time.Sleep(leftOut + time.Second)
		if c.Open() {
			t.Error("the breaker stays open")
		}
		if _, err := c.breaker.Execute(func() (*Answer, error) { return &Answer{}, nil }); err != nil || c.Open() {
			t.Errorf("a trial that works: got %v, open %t; want it closed", err, c.Open())
		}
	})
}

func TestProcess_RejectedRequestsLeaveTheBreakerClosed(t *testing.T) {
	status := http.StatusUnprocessableEntity
	c := service(t, func(w http.ResponseWriter, _ string) { http.Error(w, "no", status) })
	for range 3 * failures {
		if _, outcome, err := c.Process(t.Context(), &Request{Body: body("{}")}); outcome != Rejected || err == nil {
			t.Fatalf("got %s %v, want %s", outcome, err, Rejected)
		}
	}
	if c.Open() {
		t.Error("the breaker is open")
	}
	status = http.StatusNotFound
	if _, outcome, _ := c.Process(t.Context(), &Request{Body: body("{}")}); outcome != Failed {
		t.Errorf("status 404: %s, want %s", outcome, Failed)
	}
}

func TestProcess_ServiceWithoutAddressFails(t *testing.T) {
	for _, addresses := range [][]dial.Address{nil, at(closed), at(closed, closed, closed, closed)} {
		c, err := New(Config{Host: "processor", Addresses: addresses})
		if err != nil {
			t.Fatal(err)
		}
		if _, outcome, err := c.Process(t.Context(), &Request{Body: body("{}")}); outcome != Failed || err == nil {
			t.Errorf("%v: got %s %v, want %s", addresses, outcome, err, Failed)
		}
	}
}

func FuzzAnswer_DecodesOrFails(f *testing.F) {
	f.Add([]byte(`{"worker_address": "worker-3:8080", "token_key": "k", "token_value": "[1, 2]"}`))
	f.Add([]byte(`{"token_value": "[1]]"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := read(text)
		if err != nil || a.Tokens == nil {
			return
		}
		var list []uint32
		if err := json.Unmarshal(a.Tokens, &list); err != nil || len(list) != a.Count {
			t.Errorf("%s is taken for a list of %d, want no more or fewer: %v", a.Tokens, a.Count, err)
		}
		if got := slices.Collect(a.IDs()); !slices.Equal(got, list) {
			t.Errorf("%s is read as %v, want %v", a.Tokens, got, list)
		}
	})
}

func FuzzRequest_IsTheClientsWithRoute(f *testing.F) {
	for _, text := range []string{`{}`, ` {"a":1} `, `{"route":"x","a":{}}`, "{\n}", `[1]`, `{"a":"}"}`} {
		f.Add([]byte(text), 3)
	}
	f.Fuzz(func(t *testing.T, text []byte, at int) {
		var members map[string]json.RawMessage
		if json.Unmarshal(text, &members) != nil || members == nil {
			return
		}
		at = max(0, min(at, len(text)))
		q := &Request{Body: mem.BufferSlice{mem.SliceBuffer(text[:at]), mem.SliceBuffer(text[at:])}, Route: true}
		if !object(q.Body) {
			t.Fatalf("%q is no object, want one, as encoding/json reads", text)
		}
		sent, size, err := q.encode()
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(sent)
		var message struct {
			Body map[string]json.RawMessage `json:"request_body"`
		}
		if err := json.Unmarshal(got, &message); err != nil || int64(len(got)) != size {
			t.Fatalf("%q becomes %q of %d bytes: %v, want JSON of that size", text, got, size, err)
		}
		members["route"] = json.RawMessage("true")
		if diff := cmp.Diff(members, message.Body); diff != "" {
			t.Errorf("%q becomes %q (-want +got):\n%s", text, got, diff)
		}
	})
}
