package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/penstock-project/penstock/discovery/status"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/multicluster/channel"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/translator"
	"github.com/penstock-project/penstock/translator/model"
)

// relayed is a process that knows one relayed pool.
type relayed struct {
	*relays
	stop context.CancelFunc
}

var farImport = report.Ref{Kind: "InferencePoolImport", Namespace: "default", Name: "far"}

func startRelayed(t *testing.T, l net.Listener, peers ...string) relayed {
	t.Helper()
	c := channel.New(channel.Config{Peers: peers, Log: slog.New(slog.DiscardHandler)})
	r := relayed{relays: newRelays(status.NewBoard(nil), c)}
	r.follow(translator.Output{Pools: []translator.PickerPool{{Pool: &model.Pool{
		Name: "default/far@east", Ref: farImport, Relay: &model.Relay{Pickers: []netip.AddrPort{netip.MustParseAddrPort("10.0.0.9:9002")}, Member: "east"},
	}}}})
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

// says waits until what is said of the import has a text; "" for nothing.
func (r relayed) says(t *testing.T, want string) {
	t.Helper()
	said := ""
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		about, _ := r.board.Get(farImport)
		said = fmt.Sprint(about.Findings)
		if want == "" && len(about.Findings) == 0 || want != "" && strings.Contains(said, want) {
			return
		}
	}
	t.Fatalf("said is %s, never %q", said, want)
}

// An Envoy asks any of its control planes for a pick, and on Kubernetes another one may write the import's status.
func TestWhyARemotePickerDoesNotServeIsKnownToAllProcesses(t *testing.T) {
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
	const pool = "default/far@east"
	asked.Trouble(pool, picker.RelayFailure{NoAnswer: "nobody is there"})
	leads.says(t, "nobody is there")
	asked.Trouble(pool, picker.RelayFailure{OutOfRange: "192.0.2.1:80"})
	leads.says(t, "192.0.2.1:80")
	asked.Trouble(pool, picker.RelayFailure{})
	leads.says(t, "")
	asked.Trouble(pool, picker.RelayFailure{NoAnswer: "nobody is there"})
	leads.says(t, "nobody is there")
	asked.follow(translator.Output{PoolsGone: []string{pool}})
	leads.says(t, "")
	asked.follow(translator.Output{Pools: []translator.PickerPool{{Pool: &model.Pool{Name: pool, Ref: farImport, Relay: &model.Relay{}}}}})
	asked.Trouble(pool, picker.RelayFailure{NoAnswer: "nobody is there"})
	leads.says(t, "nobody is there")
	asked.stop()
	leads.says(t, "")
}
