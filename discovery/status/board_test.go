package status_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
)

// Sources by precedence, the weakest first.
var ranked = []string{status.Cluster, status.Files, status.Translation, status.Supervisor, status.Ports,
	status.Instance(status.Relay, "pool"),
	status.Envoy, status.Instance(status.Proxy, "default/gw a"), status.Instance(status.Proxy, "default/gw b"),
	"unlisted"}

func TestSources_TheLaterOneWins(t *testing.T) {
	for i := range ranked {
		for j := range ranked {
			if i == j {
				continue
			}
			b := status.NewBoard(nil)
			for _, source := range []string{ranked[j], ranked[i]} {
				b.Set(source,
					report.Report{
						Owner: gw, Conditions: []report.Condition{cond("Programmed", "False", "From", source)},
					})
			}
			r, _ := b.Get(gw)
			if got, want := r.Conditions[0].Message, ranked[max(i, j)]; got != want || len(r.Conditions) != 1 {
				t.Errorf("of %q and %q, %q wins; want %q, in one condition", ranked[i], ranked[j], got, want)
			}
			if listed := b.List(nil)[0].Conditions[0].Message; listed != ranked[max(i, j)] {
				t.Errorf("List: of %q and %q, %q wins, want %q", ranked[i], ranked[j], listed, ranked[max(i, j)])
			}
		}
	}
}

func TestNACK_StandsOverWhatTranslationReports(t *testing.T) {
	b := fleet()
	proxy := status.Instance(status.Proxy, "default/gw node-1")
	b.Replace(proxy,
		report.Report{Owner: admin, Conditions: []report.Condition{cond("Accepted", "False", "Invalid", "bad regex")}})
	b.Set(status.Translation,
		report.Report{
			Owner: admin, Parents: []report.Parent{parent("gw", "http", cond("Accepted", "True", "Accepted", "again"))},
		})
	r, _ := b.Get(admin)
	if c := report.Find(r.Parents[0].Conditions, "Accepted"); c == nil || c.Reason != "Invalid" {
		t.Errorf("conditions %+v, want Accepted with reason Invalid", r.Parents[0].Conditions)
	}
	b.Replace(proxy)
	r, _ = b.Get(admin)
	if c := report.Find(r.Parents[0].Conditions, "Accepted"); c == nil || c.Message != "again" {
		t.Errorf("after the NACK is resolved: got %+v, want Accepted with message again", r.Parents[0].Conditions)
	}
}

func TestBoard_DropsReportsOfDeletedObjects(t *testing.T) {
	b := fleet()
	b.Remove(status.Translation, chat)
	if _, ok := b.Get(chat); ok {
		t.Error("chat is still there")
	}
	b.Replace(status.Files)
	for _, r := range b.List(nil) {
		if len(r.Findings) > 0 {
			t.Errorf("left over: %v, want none", r.Findings)
		}
	}
	if n := b.Findings(); len(n) != 0 {
		t.Errorf("counted: %v, want none", n)
	}
}

// The board must separate entries if one key is a prefix of another, as for the Gateways "gw" and
// "gw2", or the sources "proxy a" and "proxy ab".
func TestBoard_KeysWithACommonPrefixStayApart(t *testing.T) {
	b := status.NewBoard(nil)
	gw2 := gw
	gw2.Name = "gw2"
	at := func(source string, owner report.Ref) report.Report {
		return report.Report{
			Owner: owner, Findings: []report.Finding{{Severity: report.Error, Owner: owner, Problem: source}},
		}
	}
	sources := []string{status.Instance(status.Proxy, "a"), status.Instance(status.Proxy, "ab"), status.Files}
	for _, source := range sources {
		b.Replace(source, at(source, gw), at(source, gw2))
	}
	b.Replace(sources[0])
	b.Remove(sources[1], gw)
	var left []string
	for _, r := range b.List(nil) {
		for _, f := range r.Findings {
			left = append(left, r.Owner.Name+" "+f.Problem)
		}
	}
	if want := []string{"gw files", "gw2 files", "gw2 proxy ab"}; !slices.Equal(left, want) {
		t.Errorf("left: %q, want %q", left, want)
	}
}

func TestBoard_ListIsSortedByObject(t *testing.T) {
	b := fleet()
	refs := []report.Ref{}
	for _, r := range b.List(nil) {
		refs = append(refs, r.Owner)
	}
	if !slices.IsSortedFunc(refs, report.Ref.Compare) || refs[0] != (report.Ref{}) || len(refs) != 6 {
		t.Errorf("listed: got %v, want 6 sorted, the first without an object", refs)
	}
}

func TestBoard_WatchFiresOnChangesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := fleet()
		fired := func(change func()) bool {
			ws := status.NewWatchSet()
			b.List(ws)
			change()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return ws.WatchCtx(ctx) == nil
		}
		r, _ := b.Get(pool)
		for _, c := range []struct {
			name   string
			change func()
			want   bool
		}{
			{"nothing", func() {}, false},
			{"an equal report", func() { b.Set(status.Translation, r) }, false},
			{"another report", func() { b.Set(status.Translation, report.Report{Owner: pool}) }, true},
			{"nothing to remove", func() { b.Remove(status.Supervisor, pool) }, false},
			{"a report is removed", func() { b.Remove(status.Translation, pool) }, true},
			{"nothing to replace", func() { b.Replace(status.Ports) }, false},
			{"files are read again, and lines may have moved", func() { b.Replace(status.Files) }, true},
			{"files are read again without findings", func() { b.Replace(status.Files) }, true},
			{"a reader follows", func() { b.Follow().Close() }, false},
		} {
			if got := fired(c.change); got != c.want {
				t.Errorf("%s: fired %v, want %v", c.name, got, c.want)
			}
		}
	})
}

func TestFeed_ReturnsWhatChangedAndNothingElse(t *testing.T) {
	b := status.NewBoard(nil)
	a, c := report.Ref{Kind: "HTTPRoute", Name: "a"}, report.Ref{Kind: "HTTPRoute", Name: "c"}
	b.Set(status.Translation, report.Report{Owner: a})
	f := b.Follow()
	defer f.Close()
	next := func(want ...report.Ref) {
		t.Helper()
		got, err := f.Next(t.Context())
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("got %v (%v), want %v", got, err, want)
		}
	}
	next(a)
	b.Replace(status.Files, report.Report{Owner: a}, report.Report{Owner: c})
	next(a, c)
	// a does not change
	b.Replace(status.Files, report.Report{Owner: a}, report.Report{Owner: c, Addresses: []string{"x"}})
	next(c)
	b.Replace(status.Files)
	b.Remove(status.Translation, a)
	next(a, c)
	second := b.Follow()
	defer second.Close()
	b.Set(status.Translation, report.Report{Owner: a}, report.Report{Owner: c})
	b.Set(status.Translation, report.Report{Owner: a, Addresses: []string{"y"}})
	next(a, c)
	f = second
	next(a, c)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if refs, err := f.Next(ctx); err == nil {
		t.Errorf("got %v, want to wait", refs)
	}
}

// With concurrent writers and readers, a feed misses no object's last report.
func TestFeed_MissesNoLastReport(t *testing.T) {
	b := status.NewBoard(nil)
	f := b.Follow()
	defer f.Close()
	const writers, rounds = 4, 200
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := range rounds {
				owner := report.Ref{Kind: "HTTPRoute", Name: string(rune('a' + i%10))}
				b.Set(status.Instance(status.Proxy, string(rune('0'+w))),
					report.Report{Owner: owner, AttachedListenerSets: int32(i + 1)})
				b.List(nil)
			}
		})
	}
	group.Go(func() {
		seen := map[string]int32{}
		complete := func() bool {
			for i := range 10 {
				if seen[string(rune('a'+i))] != rounds-9+int32(i) {
					return false
				}
			}
			return true
		}
		for !complete() {
			refs, err := f.Next(t.Context())
			if err != nil {
				t.Errorf("the last report was missed; seen %v, want every report", seen)
				return
			}
			for _, ref := range refs {
				r, _ := b.Get(ref)
				seen[ref.Name] = r.AttachedListenerSets
			}
		}
	})
	group.Wait()
}

func TestStream_ShowsWhatSettledAndEveryChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := fleet()
		ctx, cancel := context.WithCancel(t.Context())
		docs := make(chan *status.Document, 10)
		done := make(chan error)
		go func() {
			done <- b.Stream(ctx, "c", nil, func(doc *status.Document) error { docs <- doc; return nil })
		}()
		reason := func(doc *status.Document) string {
			for _, o := range doc.Objects {
				if o.Ref == admin {
					return o.Status.Parents[0].Conditions[0].Reason
				}
			}
			return ""
		}
		set := func(text string) {
			b.Set(status.Translation, report.Report{
				Owner: admin, Parents: []report.Parent{parent("gw", "http", cond("Accepted", "False", text, ""))},
			})
		}
		if got := reason(<-docs); got != "Accepted" {
			t.Errorf(`first: %s, want "Accepted"`, got)
		}
		set("Transient")
		time.Sleep(time.Millisecond) // shorter than the debounce time
		set("Final")
		if got := reason(<-docs); got != "Final" {
			t.Errorf(`then: %s, want "Final"`, got)
		}
		time.Sleep(time.Hour)
		if n := len(docs); n != 0 {
			t.Errorf("%d documents without a change, want none", n)
		}
		cancel()
		if err := <-done; err == nil || !strings.Contains(err.Error(), "canceled") {
			t.Errorf("ended with %v, want canceled", err)
		}
	})
}
