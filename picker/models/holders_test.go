package models

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

type lister struct {
	addr  netip.AddrPort
	list  atomic.Pointer[string]
	asked atomic.Int32
	hangs atomic.Pointer[chan struct{}] // if set, lists are answered after it closes
}

func (l *lister) set(list string) { l.list.Store(&list) }

func newLister(t *testing.T, list string) *lister {
	l := &lister{}
	l.set(list)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		l.asked.Add(1)
		if hangs := l.hangs.Load(); hangs != nil {
			<-*hangs
		}
		var data []string
		for name := range strings.FieldsSeq(*l.list.Load()) {
			data = append(data, fmt.Sprintf(`{"id":%q}`, name))
		}
		if len(data) == 0 {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = fmt.Fprintf(w, `{"data":[%s]}`, strings.Join(data, ","))
	}))
	t.Cleanup(server.Close)
	l.addr = netip.MustParseAddrPort(server.Listener.Addr().String())
	return l
}

func holders(all ...*lister) *Holders {
	h := New(Config{}).Holders()
	var p Pool
	for _, l := range all {
		p.Servers = append(p.Servers, Server{Addr: l.addr})
	}
	h.Set(p)
	return h
}

// kept returns the servers that may have a model, as letters: a, b and so on.
func kept(h *Holders, model string, all ...*lister) (text string) {
	l := h.Known(model)
	for i, s := range all {
		if l == nil || l.Keep()(&endpoint.Endpoint{Spec: endpoint.Spec{Addr: s.addr}}) {
			text += string(rune('a' + i))
		}
	}
	return text
}

func TestHolders_ServersWhoseListLacksTheModelAreLeftOut(t *testing.T) {
	a, b, c := newLister(t, "base sql"), newLister(t, "base"), newLister(t, "")
	h := holders(a, b, c)
	h.Lacking(t.Context(), "sql", time.Now())
	for model, want := range map[string]string{"sql": "ac", "base": "abc", "other": "abc"} {
		if got := kept(h, model, a, b, c); got != want {
			t.Errorf("%s: got %q, want %q", model, got, want)
		}
	}
	if l := h.Known("sql"); l == nil || l.Unlisted != 1 || l.NotFound != 0 || l.Strict {
		t.Errorf("sql: got %+v, want 1 server that does not list it, and not strict", l)
	}
}

func TestHolders_RequestForANewNameWaitsForTheLists(t *testing.T) {
	a, b := newLister(t, "base"), newLister(t, "base")
	h := holders(a, b)
	h.Lacking(t.Context(), "base", time.Now())
	b.set("base late")
	h.Lacking(t.Context(), "late", time.Now())
	if got := kept(h, "late", a, b); got != "b" {
		t.Errorf(`got %q, want "b"`, got)
	}
	asked := a.asked.Load()
	for range 100 { // only the first request for a name waits
		h.Lacking(t.Context(), "llama.cpp serves it", time.Now())
	}
	if more := a.asked.Load() - asked; more > 2 {
		t.Errorf("the lists were read %d times, want at most 2", more)
	}
}

func TestHolders_404CountsUntilTheListChanges(t *testing.T) {
	a, b, c := newLister(t, "base sql"), newLister(t, ""), newLister(t, "base sql")
	h := holders(a, b, c)
	h.Lacking(t.Context(), "sql", time.Now())
	h.NotFound("sql", b.addr, time.Now())
	if got := kept(h, "sql", a, b, c); got != "ac" {
		t.Errorf(`a server without a list, after a 404: got %q, want "ac"`, got)
	}
	a.set("base") // the adapter is unloaded
	h.NotFound("sql", a.addr, time.Now())
	if got := kept(h, "sql", a, b, c); got != "c" {
		t.Errorf(`a server whose last list has the model, after a 404: got %q, want "c"`, got)
	}
	b.set("base sql")
	poll.Until(t, "the list of b to be read", func() bool {
		h.Lacking(t.Context(), "sql", time.Now().Add(askAfter))
		return kept(h, "sql", a, b, c) == "bc"
	})
}

// A 404 of a server that lists the model has no effect after the next list: the server may only
// lack the path, for example of embeddings.
func TestHolders_404OfAServerThatListsTheModelEnds(t *testing.T) {
	a, b := newLister(t, "base"), newLister(t, "base")
	h := holders(a, b)
	h.Lacking(t.Context(), "base", time.Now())
	h.NotFound("base", a.addr, time.Now())
	poll.Until(t, "the list of a to be read", func() bool {
		h.Lacking(t.Context(), "base", time.Now())
		return kept(h, "base", a, b) == "ab"
	})
}

func TestHolders_ServerThatAnswersHasTheModel(t *testing.T) {
	a, b := newLister(t, ""), newLister(t, "")
	h := holders(a, b)
	h.Lacking(t.Context(), "base", time.Now())
	poll.Until(t, "the lists to be read", func() bool { return h.view.Load() != nil })
	h.NotFound("sql", a.addr, time.Now())
	if got := kept(h, "sql", a, b); got != "ab" {
		t.Errorf(`no server is known to have the model: got %q, want "ab"`, got)
	}
	h.Answered("sql", b.addr, time.Now())
	if got := kept(h, "sql", a, b); got != "b" {
		t.Errorf(`the other one answers: got %q, want "b"`, got)
	}
	h.Answered("sql", a.addr, time.Now())
	if got := kept(h, "sql", a, b); got != "ab" {
		t.Errorf(`both answer: got %q, want "ab"`, got)
	}
	for n := range 10 * maxMarks {
		h.NotFound(fmt.Sprint("made-up-", n), a.addr, time.Now())
		h.Answered(fmt.Sprint("made-up-", n), a.addr, time.Now())
		h.NotFound(fmt.Sprint("made-up-", n), b.addr, time.Now())
	}
	if len(h.marks) > maxMarks || len(h.answers) > maxMarks || len(h.view.Load().lacking) > 2*maxMarks {
		t.Errorf("%d marks, %d answers; want at most %d, and %d models that servers lack",
			len(h.marks), len(h.answers), maxMarks, 2*maxMarks)
	}
}

// After a 404, a server that lists the model still precedes a suspect server. The mark ends when
// its list is read, even while another server hangs.
func TestHolders_404OfAServerThatListsTheModelIsWeak(t *testing.T) {
	a, b := newLister(t, "base"), newLister(t, "base")
	h := holders(a, b)
	h.Lacking(t.Context(), "base", time.Now())
	hangs := make(chan struct{})
	b.hangs.Store(&hangs)
	defer close(hangs)
	h.mu.Lock()
	h.began = time.Time{} // makes the next reading begin at once
	h.mu.Unlock()
	h.NotFound("base", a.addr, time.Now())
	if l := h.Known("base"); l != nil && l.Strict {
		t.Errorf("after a 404 of a server that lists the model: got %+v, want not strict", l)
	}
	poll.Until(t, "the list of a to be read", func() bool { return kept(h, "base", a, b) == "ab" })
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.reading == nil {
		t.Error("the mark ended with the reading, which waits for the other server")
	}
}
