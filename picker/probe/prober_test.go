package probe

import (
	"context"
	"crypto/tls"
	"net"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// picker answers as its behave says, which may change.
type picker struct {
	extprocv3.UnimplementedExternalProcessorServer
	addr   netip.AddrPort
	server *grpc.Server

	mu     sync.Mutex
	behave func(extprocv3.ExternalProcessor_ProcessServer) error
	asked  int
}

// start serves until the test ends, with what is given besides: options of the server, or a health service.
func start(t *testing.T, address string, behave func(extprocv3.ExternalProcessor_ProcessServer) error, with ...any) *picker {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	var options []grpc.ServerOption
	for _, o := range with {
		if o, ok := o.(grpc.ServerOption); ok {
			options = append(options, o)
		}
	}
	p := &picker{addr: netip.MustParseAddrPort(l.Addr().String()), server: grpc.NewServer(options...), behave: behave}
	for _, s := range with {
		if h, ok := s.(*health.Server); ok {
			healthv1.RegisterHealthServer(p.server, h)
		}
	}
	extprocv3.RegisterExternalProcessorServer(p.server, p)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.server.Serve(l)
	}()
	t.Cleanup(func() {
		p.server.Stop()
		<-done
	})
	return p
}

func (p *picker) Process(s extprocv3.ExternalProcessor_ProcessServer) error {
	p.mu.Lock()
	p.asked++
	behave := p.behave
	p.mu.Unlock()
	return behave(s)
}

func (p *picker) questions() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// acknowledges is lwepp v1.6.0: pieces of a body are answered before the headers are.
func acknowledges(s extprocv3.ExternalProcessor_ProcessServer) error {
	for {
		m, err := s.Recv()
		if err != nil {
			return nil
		}
		if body := m.GetRequestBody(); body != nil {
			if body.EndOfStream {
				_ = s.Send(headers())
			}
			_ = s.Send(bodyResponse(nil))
		}
	}
}

// sendsBack is the protocol: nothing before the end of the body, then the headers, then the body.
func sendsBack(s extprocv3.ExternalProcessor_ProcessServer) error {
	for {
		m, err := s.Recv()
		if err != nil {
			return nil
		}
		if body := m.GetRequestBody(); body.GetEndOfStream() {
			_ = s.Send(headers())
			_ = s.Send(bodyResponse(&extprocv3.BodyMutation{Mutation: &extprocv3.BodyMutation_StreamedResponse{
				StreamedResponse: &extprocv3.StreamedBodyResponse{Body: []byte("?"), EndOfStream: true},
			}}))
		}
	}
}

func refuses(code int) func(extprocv3.ExternalProcessor_ProcessServer) error {
	return func(s extprocv3.ExternalProcessor_ProcessServer) error {
		for {
			m, err := s.Recv()
			if err != nil {
				return nil
			}
			if m.GetRequestBody().GetEndOfStream() {
				_ = s.Send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ImmediateResponse{
					ImmediateResponse: &extprocv3.ImmediateResponse{Status: &typev3.HttpStatus{Code: typev3.StatusCode(code)}},
				}})
			}
		}
	}
}

func breaksOff(extprocv3.ExternalProcessor_ProcessServer) error {
	return status.Error(codes.Internal, "no pods available")
}

func headers() *extprocv3.ProcessingResponse {
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestHeaders{RequestHeaders: &extprocv3.HeadersResponse{}}}
}

func bodyResponse(m *extprocv3.BodyMutation) *extprocv3.ProcessingResponse {
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestBody{
		RequestBody: &extprocv3.BodyResponse{Response: &extprocv3.CommonResponse{BodyMutation: m}},
	}}
}

// notes is what a Prober told.
type notes struct {
	mu   sync.Mutex
	told map[string][]Answer
}

func (n *notes) report(name string, a Answer) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.told[name] = append(n.told[name], a)
	return nil
}

func (n *notes) answer(name string) (last Answer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := n.told[name]; len(l) > 0 {
		last = l[len(l)-1]
	}
	return last
}

func (n *notes) last(name string) Dialect { return n.answer(name).Dialect }

func run(t *testing.T) (*Prober, *notes) {
	t.Helper()
	n := &notes{told: map[string][]Answer{}}
	p, err := New(Config{OnAnswer: n.report, Retry: 20 * time.Millisecond, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = p.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return p, n
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func at(addrs ...netip.AddrPort) Picker { return Picker{Addresses: addrs} }

func TestAPickerThatOnlyAcknowledgesBodiesIsToldFromOneThatSendsThemBack(t *testing.T) {
	p, n := run(t)
	for name, c := range map[string]struct {
		behave func(extprocv3.ExternalProcessor_ProcessServer) error
		is     Dialect
	}{
		"lwepp":          {acknowledges, Acknowledges},
		"duplex":         {sendsBack, FullDuplex},
		"finds no model": {refuses(400), FullDuplex},
	} {
		p.Set(name, at(start(t, "127.0.0.1:0", c.behave).addr))
		eventually(t, name, func() bool { return n.last(name) == c.is })
	}
}

// The lab's pickers, and those of most installations, have certificates of their own making.
func TestAPickerBehindTLSIsAsked(t *testing.T) {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	certificate := grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: s.TLS.Certificates, NextProtos: []string{"h2"}}))
	p, n := run(t)
	where := at(start(t, "127.0.0.1:0", acknowledges, certificate).addr)
	where.TLS = true
	p.Set("tls", where)
	eventually(t, "an answer over TLS", func() bool { return n.last("tls") == Acknowledges })
}

// A picker that has no pods yet shows nothing of how it answers.
func TestAPickerIsAskedUntilItAnswersAndThenNoMore(t *testing.T) {
	for name, first := range map[string]func(extprocv3.ExternalProcessor_ProcessServer) error{"broken off": breaksOff, "503": refuses(503)} {
		p, n := run(t)
		epp := start(t, "127.0.0.1:0", first)
		p.Set("epp", at(epp.addr))
		eventually(t, name+": asked again", func() bool { return epp.questions() > 2 })
		if d := n.last("epp"); d != Unknown {
			t.Errorf("%s: told %v", name, d)
		}
		epp.mu.Lock()
		epp.behave = acknowledges
		epp.mu.Unlock()
		eventually(t, name+": told", func() bool { return n.last("epp") == Acknowledges })
		asked := epp.questions()
		p.Set("epp", at(epp.addr)) // nothing new
		p.Set("other", at(start(t, "127.0.0.1:0", sendsBack).addr))
		eventually(t, name+": the other one", func() bool { return n.last("other") == FullDuplex })
		if now := epp.questions(); now != asked {
			t.Errorf("%s: a picker that had answered was asked %d more times", name, now-asked)
		}
	}
}

// A picker's newer release may take its place at the same address.
func TestAPickerThatComesBackIsAskedAgain(t *testing.T) {
	p, n := run(t)
	old := start(t, "127.0.0.1:0", acknowledges)
	p.Set("epp", at(old.addr))
	eventually(t, "the old one's answer", func() bool { return n.last("epp") == Acknowledges })
	old.server.Stop()
	start(t, old.addr.String(), sendsBack)
	eventually(t, "the new one's answer", func() bool { return n.last("epp") == FullDuplex })
}

// During a rollout both kinds answer under one name. What stays known while no picker is there is what a pool fails open with.
func TestPickersOfTwoKindsAreAskedInTheWayThatBothUnderstand(t *testing.T) {
	p, n := run(t)
	old, young := start(t, "127.0.0.1:0", acknowledges), start(t, "127.0.0.1:0", sendsBack)
	p.Set("epp", at(young.addr))
	eventually(t, "the young one's answer", func() bool { return n.last("epp") == FullDuplex })
	p.Set("epp", at(young.addr, old.addr))
	eventually(t, "both", func() bool { return n.last("epp") == Acknowledges })
	p.Set("epp", at())
	p.Set("epp", at(young.addr))
	eventually(t, "the young one alone", func() bool { return n.last("epp") == FullDuplex })
	p.Remove("epp")
	eventually(t, "nothing", func() bool { return n.last("epp") == Unknown })
}

// A follower that says so must not be asked for picks, and one that serves no health at all must.
func TestAPickerThatSaysWhetherItIsTheOneToAskIsToldFromOneThatDoesNot(t *testing.T) {
	p, n := run(t)
	follower := health.NewServer()
	follower.SetServingStatus(ServiceName, healthv1.HealthCheckResponse_NOT_SERVING)
	two := start(t, "127.0.0.1:0", breaksOff, follower)
	p.Set("epp", at(two.addr))
	eventually(t, "a follower's health", func() bool { return n.answer("epp") == Answer{Unknown, true} })
	p.Set("strangers", at(start(t, "127.0.0.1:0", sendsBack, health.NewServer()).addr)) // which knows of no picker
	eventually(t, "the strangers", func() bool { return n.answer("strangers") == Answer{FullDuplex, false} })
	p.Set("epp", at(two.addr, start(t, "127.0.0.1:0", sendsBack).addr))
	eventually(t, "one of two without health", func() bool { return n.answer("epp") == Answer{FullDuplex, false} })
}

// Before that, an Envoy that comes back would be told to ask pickers otherwise than it does.
func TestOneCanWaitUntilAllPickersHaveAnsweredAndNoLonger(t *testing.T) {
	p, n := run(t)
	if err := p.WaitAnswered(t.Context()); err != nil {
		t.Errorf("with no picker: %v", err)
	}
	slow := start(t, "127.0.0.1:0", breaksOff)
	p.Set("nowhere yet", at())
	p.Set("quick", at(start(t, "127.0.0.1:0", acknowledges).addr))
	p.Set("slow", at(slow.addr))
	eventually(t, "the slow one was asked twice", func() bool { return slow.questions() > 1 })
	over, end := context.WithCancel(t.Context())
	end()
	if err := p.WaitAnswered(over); err == nil {
		t.Error("it did not wait for the slow one")
	}
	slow.mu.Lock()
	slow.behave = sendsBack
	slow.mu.Unlock()
	if err := p.WaitAnswered(t.Context()); err != nil || n.last("quick") != Acknowledges || n.last("slow") != FullDuplex {
		t.Errorf("%v: quick %v, slow %v", err, n.last("quick"), n.last("slow"))
	}
	p.Set("gone", at(start(t, "127.0.0.1:0", breaksOff).addr))
	p.Remove("gone")
	if err := p.WaitAnswered(t.Context()); err != nil {
		t.Error(err)
	}
}
