package models

import (
	"context"
	"encoding/json"
	"fmt"
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

	"github.com/penstock-project/penstock/picker/upstream"
	"github.com/penstock-project/penstock/picker/upstream/upstreamtest"
)

type answerer struct {
	calls  atomic.Int64
	answer func(host string) (status int, body string)
}

func (a *answerer) RoundTrip(r *http.Request) (*http.Response, error) {
	a.calls.Add(1)
	status, body := a.answer(r.URL.Host)
	if r.URL.Path != "/v1/models" {
		status = http.StatusNotFound
	}
	if status == 0 {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	w := httptest.NewRecorder()
	w.WriteHeader(status)
	_, _ = w.WriteString(body)
	return w.Result(), nil
}

func at(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 8000)
}

func servers(n int) (list []Server) {
	for i := range n {
		list = append(list, Server{Addr: at(i)})
	}
	return list
}

func ids(list []Model) (out []string) {
	for _, m := range list {
		out = append(out, m.ID+"<"+m.Parent)
	}
	slices.Sort(out)
	return out
}

func TestModels_ServersAreAskedRarelyAndTheirAnswersKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := false
		a := &answerer{answer: func(host string) (int, string) {
			if down {
				return 503, ""
			}
			return 200,
				fmt.Sprintf(
					`{"data": [{"id": "base", "created": 7, "owned_by": "vllm"}, {"id": "at-%s", "parent": "base"}]}`,
					host)
		}}
		l := New(Config{Transport: a})
		pool := Pool{Name: "p", Servers: servers(20)}
		for range 100 {
			l.List(t.Context(), []Pool{pool})
		}
		if n := a.calls.Load(); n != maxAsked {
			t.Errorf("100 lists called servers %d times, want %d", n, maxAsked)
		}
		for range 2 {
			time.Sleep(refreshAfter)
			l.List(t.Context(), []Pool{pool})
		}
		got := ids(l.List(t.Context(), []Pool{pool}))
		if n := a.calls.Load(); n != 3*maxAsked || len(got) != 21 || !slices.Contains(got, "at-10.0.0.19:8000<base") {
			t.Errorf("after a minute: %d calls, models %q; want %d and 21 models", n, got, 3*maxAsked)
		}
		down = true
		time.Sleep(keepFor - 2*time.Minute)
		if got := l.List(t.Context(), []Pool{pool}); len(got) != 21 {
			t.Errorf("while servers do not answer, %d models are left, want 21", len(got))
		}
		pool.Servers = pool.Servers[:1] // one server is left
		if got := ids(l.List(t.Context(), []Pool{pool})); !slices.Equal(got,
			[]string{"at-10.0.0.0:8000<base", "base<"}) {
			t.Errorf("of one server: %q, want %q", got, []string{"at-10.0.0.0:8000<base", "base<"})
		}
		for range 8 {
			time.Sleep(time.Minute)
			l.List(t.Context(), []Pool{pool})
		}
		if got := l.List(t.Context(), []Pool{pool}); len(got) != 0 {
			t.Errorf("a server that has not answered for ten minutes has %q, want no models", ids(got))
		}
		l.Forget("p")
		if len(l.pools) != 0 {
			t.Error("a pool that is gone is kept")
		}
	})
}

// Clients choose the path for another cluster's gateways. Even of many paths, few are queried and
// kept.
func TestModels_GatewaysAreAskedForFewPathsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		a := roundTrip(func(r *http.Request) string {
			asked = append(asked, r.Host+r.URL.Path+" "+r.Header.Get("Via"))
			return `{"data": [{"id": "m` + r.URL.Path + `"}]}`
		})
		l := New(Config{Transport: a})
		list := func(path string) []string {
			return ids(l.List(t.Context(), []Pool{{Name: "p", Servers: servers(1), Host: "h.example", Path: path}}))
		}
		for i := range 100 {
			if got := list(fmt.Sprintf("/%d/v1/models", i)); len(got) != 0 != (i < maxParts) {
				t.Errorf("path %d: got %q, want models: %t", i, got, i < maxParts)
			}
		}
		if len(asked) != maxParts || asked[0] != "h.example/0/v1/models 1.1 penstock" || len(l.pools["p"]) != maxParts {
			t.Errorf("asked %q, kept %d; want the first %d paths", asked, len(l.pools["p"]), maxParts)
		}
		time.Sleep(refreshAfter - 1)
		for i := range maxParts - 1 {
			list(fmt.Sprintf("/%d/v1/models", i))
		}
		time.Sleep(time.Nanosecond)
		if got := list("/new/v1/models"); !slices.Equal(got, []string{"m/new/v1/models<"}) ||
			len(l.pools["p"]) != maxParts {
			t.Errorf("a path in place of the one that is not used: got %q, want its model", got)
		}
		if got := list("/newer/v1/models"); len(got) != 0 {
			t.Errorf("a path when all are used: got %q, want none", got)
		}
		l.Forget("p")
		if len(l.pools) != 0 {
			t.Error("a pool that is gone is kept")
		}
	})
}

type roundTrip func(*http.Request) string

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	_, _ = w.WriteString(f(r))
	return w.Result(), nil
}

func TestModels_SlowServerDelaysOneListByASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{Transport: &answerer{answer: func(host string) (int, string) {
			if strings.HasPrefix(host, "10.0.0.1:") {
				return 0, ""
			}
			return 200, `{"data": [{"id": "base"}]}`
		}}})
		pool := Pool{Name: "p", Servers: servers(2)}
		began := time.Now()
		if got := l.List(t.Context(), []Pool{pool}); len(got) != 1 || time.Since(began) != askTimeout {
			t.Errorf("got %q after %s, want 1 model after %s", ids(got), time.Since(began), askTimeout)
		}
		began = time.Now()
		if got := l.List(t.Context(), []Pool{pool}); len(got) != 1 || time.Since(began) != 0 {
			t.Errorf("got %q after %s more, want 1 model at once", ids(got), time.Since(began))
		}
	})
}

func TestModels_WrongAnswersAreLeftOut(t *testing.T) {
	many := strings.TrimSuffix(strings.Repeat(`{"id": "x%d"},`, 3*maxAnswer), ",")
	numbers := make([]any, 3*maxAnswer)
	for i := range numbers {
		numbers[i] = i
	}
	for answer, want := range map[string]int{
		`{"data": [{"id": "a"}, {"id": ""}, {"id": "b\n"}, {"id": "` + strings.Repeat("x", maxName+1) +
			`"}, {"id": "c", "created": 1e300}]}`: 2,
		`{"data": [` + fmt.Sprintf(many, numbers...) + `]}`: maxAnswer,
		`{"data": [{"id": 5}]}`:                             0,
		`[`:                                                 0,
		strings.Repeat(`{"data":`, 100_000):                 0,
		`{"data": [{"id": "a"}]}` + strings.Repeat(" ", maxBytes): 0,
		`{"models": []}`: 0,
	} {
		l := New(Config{Transport: &answerer{answer: func(string) (int, string) { return 200, answer }},
			Never: func(a netip.Addr) string {
				if a == at(1).Addr() {
					return "an address of this machine"
				}
				return ""
			}})
		if got := l.List(context.Background(), []Pool{{Name: "p", Servers: servers(1)}}); len(got) != want {
			t.Errorf("%.60q: %d models, want %d", answer, len(got), want)
		}
		if got := l.List(context.Background(), []Pool{{Name: "never", Servers: servers(2)[1:]}}); len(got) != 0 {
			t.Errorf("an address that is never called has %q, want no models", ids(got))
		}
	}
}

func TestModels_OfServersThatSpeakH2CAreListed(t *testing.T) {
	_, addr := upstreamtest.H2C(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"data": [{"id": "a"}]}`)
	}))
	pool := Pool{Name: "p", Servers: []Server{{Addr: addr}}, Protocol: upstream.Protocol{HTTP2: true}}
	if got := New(Config{}).List(t.Context(), []Pool{pool}); len(got) != 1 || got[0].ID != "a" {
		t.Errorf("models %q, want a", ids(got))
	}
}

func TestModels_AdaptersOfPagesHaveTheirServersBase(t *testing.T) {
	l := New(Config{Transport: &answerer{answer: func(host string) (int, string) {
		return 200, `{"data": [{"id": "base", "created": 7, "owned_by": "vllm"}]}`
	}}})
	pool := Pool{Name: "p", Servers: []Server{{Addr: at(0), Adapters: []string{"sql", "base", "sql"}}}}
	text := Encode(l.List(t.Context(), []Pool{pool, pool}))
	want :=
		`{"object":"list","data":[{"id":"base","object":"model","created":7,"owned_by":"vllm"},{"id":"sql",` +
			`"object":"model","created":7,"owned_by":"vllm","parent":"base"}]}`
	if text != want {
		t.Errorf("%s, want %s", text, want)
	}
	pool.Names = []string{"alias", "sql", "a\n"}
	if got := ids(l.List(t.Context(), []Pool{pool})); !slices.Equal(got, []string{"alias<", "base<", "sql<base"}) {
		t.Errorf("with names: %q, want %q", got, []string{"alias<", "base<", "sql<base"})
	}
	if got := l.List(t.Context(), []Pool{{Name: "empty", Names: pool.Names}}); len(got) != 0 {
		t.Errorf("names of a pool whose servers have no models: got %q, want none", ids(got))
	}
	long := make([]Model, 5*maxList)
	for i := range long {
		long[i].ID = fmt.Sprint(len(long) - i)
	}
	var list struct{ Data []Model }
	if err := json.Unmarshal([]byte(Encode(long)), &list); err != nil || len(list.Data) != maxList ||
		!slices.IsSortedFunc(list.Data, func(a, b Model) int { return strings.Compare(a.ID, b.ID) }) {
		t.Errorf("got %v, %d of %d models; want %d, sorted", err, len(list.Data), len(long), maxList)
	}
}
