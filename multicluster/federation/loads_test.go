package federation

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/multicluster/federation/wiretest"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

// asked polls until members request exactly these pools' loads from a site.
func (s *site) asked(want ...objectid.Member) {
	s.t.Helper()
	poll.NoError(s.t, s.name+" is asked for loads", poll.Limit, func() error {
		got := s.Wanted()
		slices.SortFunc(got, objectid.Member.Compare)
		if d := cmp.Diff(want, got); d != "" {
			return fmt.Errorf("(-want +got):\n%s", d)
		}
		return nil
	})
}

func TestFederation_LoadIsReportedToMembersThatAskForIt(t *testing.T) {
	a, b, c := newSite(t, "a", id("a")), newSite(t, "b", id("b")), newSite(t, "c", id("c"))
	join(a, b, c)
	a.exports(exported("10.0.0.1", "b"))
	b.has("a=10.0.0.1")
	at := objectid.Member{Member: "a", Pool: chat}
	c.Want([]objectid.Member{at}) // the pool is not exported to c
	b.Want([]objectid.Member{at, {Member: "a", Pool: objectid.Pool{Namespace: "ns", Name: "other"}}})
	a.asked(objectid.Member{Member: "b", Pool: chat})

	load := Load{Least: 0.25, Servers: 3, Rate: 1500, Counted: map[string]uint64{"b/x": 7}, Epoch: 5,
		Blocks: []uint64{1, math.MaxUint64}, Capacity: 10, Interval: 200 * time.Millisecond}
	for _, to := range []objectid.Member{{Member: "b", Pool: chat}, {Member: "c", Pool: chat}} {
		if err := a.PublishLoad(to, load); err != nil {
			t.Fatal(err)
		}
	}
	b.reported(at, load)
	load.Least = 0.5
	if err := a.PublishLoad(objectid.Member{Member: "b", Pool: chat}, load); err != nil {
		t.Fatal(err)
	}
	b.reported(at, load)
	poll.NoError(t, "the connection's round trip is known", poll.Limit, func() error {
		if d := b.RoundTrip("a"); d <= 0 || d > time.Second {
			return fmt.Errorf("the round trip is %s, want over 0 and at most 1 s", d)
		}
		return nil
	})
	if d := b.RoundTrip("mars"); d != 0 {
		t.Errorf("the round trip to no member is %s, want 0", d)
	}

	b.Want(nil)
	a.asked()
	if got := b.loadsOf(objectid.Member{Member: "c", Pool: chat}); len(got) > 0 {
		t.Errorf("loads that were not asked for: got %v, want none", got)
	}
	c.stop()
	b.Want([]objectid.Member{at})
	a.asked(objectid.Member{Member: "b", Pool: chat})
	b.stop() // b's requests end with its connection
	a.asked()
}

// An invalid report of a member is passed to Config.Problem, so it becomes a finding.
func TestFederation_ReportsWithoutEffectAreNoted(t *testing.T) {
	a, b := newSite(t, "a", id("a")), newSite(t, "b", id("b"))
	problems := make(chan string, 100)
	b.cfg.Problem = func(member, problem string) { problems <- member + ": " + problem }
	join(a, b)
	b.exports(exported("10.0.0.2", "a"))
	a.exports(exported("10.0.0.1", "b"))
	b.has("a=10.0.0.1")
	b.Want([]objectid.Member{{Member: "a", Pool: chat}})
	a.asked(objectid.Member{Member: "b", Pool: chat})
	for _, c := range []struct {
		topic      *channel.Topic
		key, value string
	}{{a.loads, "b/ns/chat", `{"blocks":"AAAA"}`}, {a.imports, "b/ns/chat", `{"incarnation":-1}`},
		{a.wanted, "b/No/Pool", ""}} {
		c.topic.Publish(channel.Item{Key: c.key, Value: wiretest.Value(c.value)})
		poll.NoError(t, c.key+" "+c.value+" is noted", poll.Limit, func() error {
			select {
			case text := <-problems:
				if !strings.HasPrefix(text, "a: ") {
					t.Errorf(`the problem is %s, want "a: " at its beginning`, text)
				}
				return nil
			default:
				return errors.New("nothing is")
			}
		})
	}
}

// Parts with invalid keys are reported before the last part of an update arrives.
func TestFederation_UnreadableUpdateIsReportedWithItsFirstPart(t *testing.T) {
	a, b := newSite(t, "a", id("a")), newSite(t, "b", id("b"))
	problems := make(chan string, 100)
	b.cfg.Problem = func(_, problem string) { problems <- problem }
	join(a, b)
	b.exports() // b reads reports only after its first SetExports
	a.exports(exported("10.0.0.1", "b"))
	b.has("a=10.0.0.1")
	b.paces.spent(a.listener.Addr().String(), burst, time.Now()) // each part then waits for seconds
	items := make([]channel.Item, 20_000)
	for i := range items {
		items[i].Key = fmt.Sprintf("b/no pool/%d", i)
	}
	a.imports.Publish(items...)
	select {
	case text := <-problems:
		if !strings.Contains(text, "is not the name of a pool") || !strings.Contains(text, "and 1021 more") {
			t.Errorf("got %q, want the first items of the first part and the number of the others", text)
		}
	case <-time.After(poll.Limit):
		t.Fatal("the update is not reported")
	}
}

// reported polls until the last load that a site received from a member's pool is want.
func (s *site) reported(from objectid.Member, want Load) {
	s.t.Helper()
	poll.NoError(s.t, s.name+" has a load", poll.Limit, func() error {
		got := s.loadsOf(from)
		if len(got) == 0 {
			return fmt.Errorf("loads: got none, want %v", want)
		}
		if d := cmp.Diff(want, got[len(got)-1]); d != "" {
			return fmt.Errorf("(-want +got):\n%s", d)
		}
		return nil
	})
}

func (s *site) loadsOf(from objectid.Member) []Load {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.loaded[from])
}

// FuzzLoad_WhatAMemberReportsIsBounded decodes any bytes as a load. If decoding succeeds, the load
// must be within its bounds.
func FuzzLoad_WhatAMemberReportsIsBounded(f *testing.F) {
	valid, _ := encoding.Marshal(load{Least: 1, Servers: 2, Counted: map[string]uint64{"a/b": 1},
		Blocks: []byte("12345678"), Interval: 200})
	for _, seed := range [][]byte{valid, nil, wiretest.Value("{}"), wiretest.Value("null"),
		wiretest.Value(`{"interval":-1}`),
		wiretest.Value(`{"interval":9223372036854775807,"servers":-9,"least":-1e308}`),
		[]byte("\xa1\x66blocks\x44AAAA"),
		[]byte("\xa1\x65least\xf9\x7e\x00"), wiretest.Value(`{"counted":{"":18446744073709551615}}`)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		load, err := decodeLoad(value)
		if err != nil {
			return
		}
		if len(load.Blocks) > maxLoadBlocks || len(load.Counted) > maxSenders || load.Interval < 0 ||
			load.Interval > time.Minute || slices.Contains(load.Blocks, 0) {
			t.Errorf("got %+v, want at most %d blocks other than 0, %d senders, and an interval of 0 to 1 min", load,
				maxLoadBlocks, maxSenders)
		}
	})
}
