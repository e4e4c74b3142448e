package features

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// heldPicker is a remote picker that holds back its answers until the test releases them.
type heldPicker struct {
	extprocv3.UnimplementedExternalProcessorServer
	names  string
	called chan struct{} // has a value for each request
	may    chan struct{} // closed to let the picker answer
}

func (p *heldPicker) Process(stream extprocv3.ExternalProcessor_ProcessServer) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil
		}
		if !m.GetRequestHeaders().GetEndOfStream() && !m.GetRequestBody().GetEndOfStream() {
			continue
		}
		p.called <- struct{}{}
		<-p.may
		if err := stream.Send(names(p.names)); err != nil {
			return err
		}
	}
}

type answer struct {
	reply
	err error
}

func (s *site) begin(path string) <-chan answer {
	done := make(chan answer, 1)
	go func() {
		got, err := s.ask(path, question)
		done <- answer{got, err}
	}()
	return done
}

// Before the picker answers, a change removes the cluster of the endpoint that the picker names.
// Envoy keeps the cluster for a while, so the request is served.
func TestRelay_DeletedImportKeepsRequestsInFlight(t *testing.T) {
	for what, edits := range map[string][]edit{
		"the cluster leaves the import": {with("here", "far", "left", "held"), swap("name: west\n", "name: north\n")},
		"the import leaves":             {with("here", "far", "left")},
		"the route leaves":              {with("here", "left", "held")},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.server("west-1")
			s.server("here-1")
			remote := &heldPicker{names: s.address("west-1"), called: make(chan struct{}, 1), may: make(chan struct{})}
			s.ports["picker"], _ = serving(t, "127.0.0.1:0", remote)
			s.up("relay.yaml", with("here", "far", "held"))
			first := s.begin("/far")
			<-remote.called
			s.write("relay.yaml", edits...)
			s.answers("/left", http.StatusOK) // the change is in force in Envoy
			close(remote.may)
			if got := <-first; got.err != nil || got.status != http.StatusOK || got.by() != "west-1" {
				t.Errorf(`the request in flight: %d from %q: %s %v, want %d and "west-1"`,
					got.status, got.by(), got.body, got.err, http.StatusOK)
			}
		})
	}
}

// The remote picker serves cleartext, but a port without appProtocol means TLS. status reports that
// calls fail.
func TestRelay_FailedRemotePicksAreReported(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("west-1")
	s.server("here-1")
	s.exporter("relay.yaml", with("exporter"))
	s.up("relay.yaml", with("here", "far", "reported"))
	reports := func(text string) {
		t.Helper()
		s.Eventually("the status reports "+text, func() error {
			if got, err := s.ask("/far", question); err == nil && got.status == http.StatusOK {
				return fmt.Errorf("served by %q, want an error", got.by())
			}
			out := s.status()
			return because(strings.Contains(out, text), out)
		})
	}
	picker, pod := s.address("exporter.picker"), s.address("west-1")
	reports("status.clusters[0].endpointPicker.service: cluster west: its picker at " + picker + " cannot be asked")
	s.logged("cannot be asked: it answers in cleartext")
	reports("set appProtocol: kubernetes.io/h2c on the service's port\n")

	cleartext := swap("${exporter.picker}", "${exporter.picker}, appProtocol: kubernetes.io/h2c")
	s.write("relay.yaml", with("here", "far", "reported"), cleartext)
	reports("cluster west: its picker named " + pod + ", which is not sent to: declared are addresses in 10.0.0.0/8, " +
		"at port " + pod[len("127.0.0.1:"):])
	s.logged("which is not sent to")
	if out := s.status(); strings.Contains(out, "cannot be asked") {
		t.Errorf("status: got\n%s\nwant no resolved problem", out)
	}
	s.Eventually("the pick is recorded", func() error { // only one pick in 20 ms is recorded
		_, _ = s.ask("/far", question)
		page := s.page("/debug/picks?pool=default/far@west")
		return because(strings.Contains(page, `"relay_out_of_range"`) && strings.Contains(page, pod), page)
	})

	s.write("relay.yaml", with("here", "far", "reported"), cleartext, swap("10.0.0.0/8", "127.0.0.0/8"))
	s.Eventually("it serves, and nothing is reported", func() error {
		if got, err := s.ask("/far", question); err != nil || got.status != http.StatusOK {
			return fmt.Errorf("got %d %s %w, want 200", got.status, got.body, err)
		}
		out := s.status()
		return because(!strings.Contains(out, "cannot be asked") && !strings.Contains(out, "which is not sent to"), out)
	})
	for _, text := range []string{"cannot be asked", "which is not sent to"} {
		if n := strings.Count(s.output(), text); n != 1 {
			t.Errorf("%q was printed %d times, want 1", text, n)
		}
	}
}

// Envoy calls no picker before a health check succeeds, and the moved picker answers its check
// late.
func TestRelay_PickerThatMovesLosesNoRequest(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	east := s.cluster("east")
	var calls atomic.Int64
	moved, _ := serving(t, "127.0.0.2:0", east, grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream,
		info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
		if info.FullMethod != extprocv3.ExternalProcessor_Process_FullMethodName { // a health check
			time.Sleep(250 * time.Millisecond)
			return status.Error(codes.Unimplemented, "no health here")
		}
		calls.Add(1)
		return handler(srv, stream)
	}), grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { return nil }))
	s.ports["moved"] = moved
	s.up("relay.yaml", with("far", "direct"))
	s.answers("/far", http.StatusOK)
	requests := s.traffic("/far")
	s.write("relay.yaml", with("far", "direct"), swap("addresses: [127.0.0.1], ports: [{number: ${east.picker}",
		"addresses: [127.0.0.2], ports: [{number: ${moved}"))
	s.Eventually("the picker is asked where it has moved", func() error {
		return because(calls.Load() >= 20,
			calls.Load(), " calls")
	})
	requests.end(0)
}

func TestRelay_ChangedPickerClusterEndsNoRequestInFlight(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	east := s.cluster("east")
	arrived, may := make(chan struct{}, 100), make(chan struct{})
	east.server.Config.Handler = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if strings.Contains(r.URL.Path, "held") {
			arrived <- struct{}{}
			<-may
		}
	})
	s.up("relay.yaml", with("far", "direct"))
	s.answers("/far", http.StatusOK)
	held := s.begin("/far/held")
	<-arrived
	// The picker does not speak TLS, so new calls fail.
	s.write("relay.yaml", with("far", "direct"), swap(", appProtocol: kubernetes.io/h2c", ""))
	s.Eventually("new requests meet the new configuration", func() error {
		got, err := s.ask("/far", question)
		return because(err == nil && got.status != http.StatusOK, got.status, err)
	})
	close(may)
	if got := <-held; got.status != http.StatusOK || got.err != nil {
		t.Errorf("the request in flight: %d %v, want %d", got.status, got.err, http.StatusOK)
	}
}
