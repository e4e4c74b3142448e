package kvevents

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func loadStat(t testing.TB, fields ...any) []byte {
	t.Helper()
	raw, err := msgpack.Marshal(append([]any{"LoadStat"}, fields...))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestLoadStat_IsReadFromSGLangsSocket(t *testing.T) {
	socket, at := zmq(t)
	var mu sync.Mutex
	var got []string
	s := subscriber(t, Config{Load: func(server netip.AddrPort, l Load) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, fmt.Sprintf("%v %+v", server, l))
	}})
	sub := s.SubscribeLoads([]LoadSource{{Server: model1, Publisher: at}})
	receives := func(want string, sent func()) {
		t.Helper()
		poll.NoError(t, want, poll.Limit, func() error {
			sent()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Contains(got, want) {
				return fmt.Errorf("got loads %q, problem %q; want %q", got, sub.Problem(model1), want)
			}
			return nil
		})
	}
	if problem := sub.Problem(model1); !strings.Contains(problem, at.String()) {
		t.Errorf("before the first load: problem %q, want one that names %s", problem, at)
	}
	receives("127.0.0.1:8001 {Running:3 Waiting:7 Tokens:2048 Fit:8192}", func() {
		send(t, socket, "load-balancer", 0, []byte("no LoadStat"))
		send(t, socket, "load", 1, loadStat(t, 3, 7, 2048, 8192, nil))
	})
	receives("127.0.0.1:8001 {Running:70000 Waiting:0 Tokens:1099511627776 Fit:0}",
		func() { send(t, socket, "load", 1<<63, loadStat(t, 70000, 0, 1<<40, 0, 3, "later")) })
	if problem := sub.Problem(model1); problem != "" {
		t.Errorf("problem %q while loads arrive, want none", problem)
	}
	poll.Until(t, "an invalid load ends the connection", func() bool {
		send(t, socket, "load", 2, loadStat(t, -1, 0, 0, 0))
		return strings.Contains(sub.Problem(model1), "not SGLang's LoadStat")
	})
	receives("127.0.0.1:8001 {Running:1 Waiting:2 Tokens:3 Fit:4}",
		func() { send(t, socket, "load", 3, loadStat(t, 1, 2, 3, 4)) })
	sub.Release()
	if len(s.loads) != 0 {
		t.Errorf("%d sources after the release, want 0", len(s.loads))
	}
}

func TestLoadStat_OtherFormsAreNone(t *testing.T) {
	whole := loadStat(t, 1, 2, 3, 4, nil)
	for i := range whole[:len(whole)-1] { // the last field may be absent
		if l, ok := decodeLoad(whole[:i]); ok {
			t.Errorf("the first %d of %d bytes are %+v, want no load", i, len(whole), l)
		}
	}
	for _, fields := range [][]any{{1, 2, 3}, {1, 2, 3, -4}, {1, 2, "3", 4}, {1, 2, 3, uint64(1) << 63}, {1.5, 2, 3, 4},
		{nil, 2, 3, 4}} {
		if l, ok := decodeLoad(loadStat(t, fields...)); ok {
			t.Errorf("%v is %+v, want no load", fields, l)
		}
	}
}

func FuzzLoadStat_NumbersAreBounded(f *testing.F) {
	f.Add(loadStat(f, 1, 2, 3, 4, nil))
	f.Add([]byte("\xdd\xff\xff\xff\xff\xa8LoadStat"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, ok := decodeLoad(raw)
		for _, n := range []int{l.Running, l.Waiting, l.Tokens, l.Fit} {
			if ok && (n < 0 || n > maxCount) {
				t.Errorf("got %+v, want numbers of 0 to %d", l, maxCount)
			}
		}
	})
}
