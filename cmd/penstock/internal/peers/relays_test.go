package peers

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/model"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

type relayed struct {
	*Relays
	stop context.CancelFunc

	mu   sync.Mutex
	down map[string]string // by source
}

func (r *relayed) noteDown(pool objectid.Target, source, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down[pool.Member+" "+source] = why; why == "" {
		delete(r.down, pool.Member+" "+source)
	}
}

func (r *relayed) isDown(t *testing.T, sources int, why string) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("the picker is down at %d sources", sources), func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		for source, reason := range r.down {
			if !strings.HasPrefix(source, "east relay") || reason != why {
				t.Errorf(`%s: %s, want the beginning "east relay" and %s`, source, reason, why)
			}
		}
		return len(r.down) == sources
	})
}

var farImport = report.Ref{Kind: "InferencePoolImport", Namespace: "default", Name: "far"}

func startRelayed(t *testing.T, l net.Listener, peers ...string) *relayed {
	t.Helper()
	c := channel.New(channel.Config{Peers: peers, Log: slog.New(slog.DiscardHandler)})
	r := &relayed{down: map[string]string{}}
	r.Relays = NewRelays(status.NewBoard(nil), c, r.noteDown)
	r.Follow([]translator.PickerPool{{Pool: &model.Pool{
		Name: objectid.Target{Pool: objectid.Pool{Namespace: "default", Name: "far"}, Member: "east"}, Ref: farImport,
		Relay: &model.Relay{
			Pickers: []model.RemoteAddress{{Addr: netip.MustParseAddrPort("10.0.0.9:9002"), Cleartext: true}},
			Member:  "east",
		},
	}}}, nil)
	s := grpc.NewServer()
	c.Register(s)
	go func() { _ = s.Serve(l) }()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Run(ctx)
	}()
	r.stop = func() {
		cancel()
		s.Stop()
		<-done
	}
	t.Cleanup(r.stop)
	return r
}

// reports waits until the import's findings contain a text; "": until it has none.
func (r *relayed) reports(t *testing.T, want string) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("the findings contain %q", want), func() bool {
		about, _ := r.board.Get(farImport)
		return want == "" && len(about.Findings) == 0 ||
			want != "" && strings.Contains(fmt.Sprint(about.Findings), want)
	})
}

func TestInferencePoolImport_RelayFailureReachesAllProcesses(t *testing.T) {
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	a, b := listen(), listen()
	addresses := []string{a.Addr().String(), b.Addr().String()}
	asked, leads := startRelayed(t, a, addresses...), startRelayed(t, b, addresses...)
	id := objectid.Target{Pool: objectid.Pool{Namespace: "default", Name: "far"}, Member: "east"}
	asked.Trouble(id, picker.RelayFailure{NoAnswer: "connection refused"})
	leads.reports(t, "connection refused")
	asked.isDown(t, 1, "connection refused")
	leads.isDown(t, 1, "connection refused")
	asked.Trouble(id, picker.RelayFailure{OutOfRange: "192.0.2.1:80"})
	leads.reports(t, "192.0.2.1:80")
	asked.isDown(t, 0, "")
	leads.isDown(t, 0, "")
	asked.Trouble(id, picker.RelayFailure{})
	leads.reports(t, "")
	asked.Trouble(id, picker.RelayFailure{NoAnswer: "connection refused"})
	leads.reports(t, "connection refused")
	asked.Follow(nil, []objectid.Target{id})
	leads.reports(t, "")
	asked.Follow([]translator.PickerPool{{Pool: &model.Pool{Name: id, Ref: farImport, Relay: &model.Relay{}}}}, nil)
	asked.Trouble(id, picker.RelayFailure{NoAnswer: "connection refused"})
	leads.reports(t, "connection refused")
	leads.isDown(t, 1, "connection refused")
	asked.stop()
	leads.reports(t, "")
	leads.isDown(t, 0, "")
}
