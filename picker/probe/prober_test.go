package probe

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
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
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/penstock-project/penstock/picker/dial"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

type picker struct {
	extprocv3.UnimplementedExternalProcessorServer
	addr   netip.AddrPort
	server *grpc.Server

	mu       sync.Mutex
	behave   func(extprocv3.ExternalProcessor_ProcessServer) error
	received int
}

func start(t *testing.T, address string, behave func(extprocv3.ExternalProcessor_ProcessServer) error,
	with ...any) *picker {
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
	p.received++
	behave := p.behave
	p.mu.Unlock()
	return behave(s)
}

func (p *picker) probes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.received
}

// acknowledges behaves as lwepp v1.6.0: it answers chunks of a body before the headers.
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

func fullDuplex(s extprocv3.ExternalProcessor_ProcessServer) error {
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

func immediate(code int) func(extprocv3.ExternalProcessor_ProcessServer) error {
	return func(s extprocv3.ExternalProcessor_ProcessServer) error {
		for {
			m, err := s.Recv()
			if err != nil {
				return nil
			}
			if m.GetRequestBody().GetEndOfStream() {
				_ = s.Send(&extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_ImmediateResponse{
					ImmediateResponse: &extprocv3.ImmediateResponse{
						Status: &typev3.HttpStatus{Code: typev3.StatusCode(code)},
					},
				}})
			}
		}
	}
}

func fails(extprocv3.ExternalProcessor_ProcessServer) error {
	return status.Error(codes.Internal, "no pods available")
}

func headers() *extprocv3.ProcessingResponse {
	return &extprocv3.ProcessingResponse{
		Response: &extprocv3.ProcessingResponse_RequestHeaders{RequestHeaders: &extprocv3.HeadersResponse{}},
	}
}

func bodyResponse(m *extprocv3.BodyMutation) *extprocv3.ProcessingResponse {
	return &extprocv3.ProcessingResponse{Response: &extprocv3.ProcessingResponse_RequestBody{
		RequestBody: &extprocv3.BodyResponse{Response: &extprocv3.CommonResponse{BodyMutation: m}},
	}}
}

type notes struct {
	mu       sync.Mutex
	reported map[string][]Answer
}

func (n *notes) report(name string, a Answer) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.reported[name] = append(n.reported[name], a)
	return nil
}

func (n *notes) answer(name string) (last Answer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := n.reported[name]; len(l) > 0 {
		last = l[len(l)-1]
	}
	return last
}

func (n *notes) last(name string) Dialect { return n.answer(name).Dialect }

func (n *notes) all(name string) []Answer {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.reported[name])
}

func (n *notes) count(name string, matches func(Answer) bool) int {
	return len(slices.DeleteFunc(n.all(name), func(a Answer) bool { return !matches(a) }))
}

func run(t *testing.T) (*Prober, *notes) {
	t.Helper()
	return runFor(t, 0)
}

func runFor(t *testing.T, lost time.Duration) (*Prober, *notes) {
	t.Helper()
	n := &notes{reported: map[string][]Answer{}}
	p, err := New(Config{OnAnswer: n.report, Retry: 20 * time.Millisecond, Timeout: time.Second,
		HealthInterval: 20 * time.Millisecond, LostFor: lost})
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

func at(addrs ...netip.AddrPort) (p Picker) {
	for _, a := range addrs {
		p.Addresses = append(p.Addresses, dial.Address{AddrPort: a, Cleartext: true})
	}
	return p
}

func TestExternalPicker_DialectIsDetected(t *testing.T) {
	p, n := run(t)
	for name, c := range map[string]struct {
		behave func(extprocv3.ExternalProcessor_ProcessServer) error
		want   Dialect
	}{
		"lwepp":          {acknowledges, Acknowledges},
		"duplex":         {fullDuplex, FullDuplex},
		"rejects bodies": {immediate(400), FullDuplex},
	} {
		p.Set(name, at(start(t, "127.0.0.1:0", c.behave).addr))
		poll.Until(t, name, func() bool { return n.last(name) == c.want })
	}
}

// A picker with a self-signed certificate is probed, because most installed pickers have one.
func TestExternalPicker_SelfSignedTLSIsProbed(t *testing.T) {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	certificate := grpc.Creds(
		credentials.NewTLS(&tls.Config{Certificates: s.TLS.Certificates, NextProtos: []string{"h2"}}))
	p, n := run(t)
	where := at(start(t, "127.0.0.1:0", acknowledges, certificate).addr)
	where.Addresses[0].Cleartext = false
	p.Set("tls", where)
	poll.Until(t, "an answer over TLS", func() bool { return n.last("tls") == Acknowledges })
}

// A picker whose pool has no pods yet does not show its dialect, so it is probed until it does.
func TestExternalPicker_ProbedUntilItAnswersAndNoLonger(t *testing.T) {
	for name, first := range map[string]func(extprocv3.ExternalProcessor_ProcessServer) error{
		"error": fails, "503": immediate(503),
	} {
		p, n := run(t)
		epp := start(t, "127.0.0.1:0", first)
		p.Set("epp", at(epp.addr))
		poll.Until(t, name+": probed again", func() bool { return epp.probes() > 2 })
		if d := n.last("epp"); d != Unknown {
			t.Errorf("%s: reported %v, want %v", name, d, Unknown)
		}
		epp.mu.Lock()
		epp.behave = acknowledges
		epp.mu.Unlock()
		poll.Until(t, name+": reported", func() bool { return n.last("epp") == Acknowledges })
		probes := epp.probes()
		p.Set("epp", at(epp.addr)) // a repeated Set changes nothing
		p.Set("other", at(start(t, "127.0.0.1:0", fullDuplex).addr))
		poll.Until(t, name+": the other one", func() bool { return n.last("other") == FullDuplex })
		if now := epp.probes(); now != probes {
			t.Errorf("%s: a picker that had answered was probed %d more times, want none", name, now-probes)
		}
	}
}

// A restarted picker is probed again, because it may be a newer release.
func TestExternalPicker_ProbedAgainAfterRestart(t *testing.T) {
	p, n := run(t)
	old := start(t, "127.0.0.1:0", acknowledges)
	p.Set("epp", at(old.addr))
	poll.Until(t, "the old one's answer", func() bool { return n.last("epp") == Acknowledges })
	old.server.Stop()
	start(t, old.addr.String(), fullDuplex)
	poll.Until(t, "the new one's answer", func() bool { return n.last("epp") == FullDuplex })
}

// During a rollout, one name has pickers of both dialects, which count as Acknowledges. If all
// pickers are removed, the last result remains.
func TestExternalPicker_MixedDialectsUseAcknowledges(t *testing.T) {
	p, n := run(t)
	old, newer := start(t, "127.0.0.1:0", acknowledges), start(t, "127.0.0.1:0", fullDuplex)
	p.Set("epp", at(newer.addr))
	poll.Until(t, "the newer one's answer", func() bool { return n.last("epp") == FullDuplex })
	p.Set("epp", at(newer.addr, old.addr))
	poll.Until(t, "both", func() bool { return n.last("epp") == Acknowledges })
	p.Set("epp", at())
	p.Set("epp", at(newer.addr))
	poll.Until(t, "the newer one alone", func() bool { return n.last("epp") == FullDuplex })
	p.Remove("epp")
	poll.Until(t, "nothing", func() bool { return n.last("epp") == Unknown })
}

// Health is true for a follower that reports NOT_SERVING, and false for a picker without a health
// service. Envoy must call only the latter.
func TestExternalPicker_HealthServiceIsDetected(t *testing.T) {
	p, n := run(t)
	follower := health.NewServer()
	follower.SetServingStatus(ServiceName, healthv1.HealthCheckResponse_NOT_SERVING)
	two := start(t, "127.0.0.1:0", fails, follower)
	p.Set("epp", at(two.addr))
	poll.Until(t, "a follower's health", func() bool {
		return n.answer("epp") == (Answer{Dialect: Unknown, Health: true})
	})
	// This health service does not know ServiceName.
	p.Set("unrelated", at(start(t, "127.0.0.1:0", fullDuplex, health.NewServer()).addr))
	poll.Until(t, "the unrelated health service", func() bool {
		return n.answer("unrelated") == (Answer{Dialect: FullDuplex})
	})
	p.Set("epp", at(two.addr, start(t, "127.0.0.1:0", fullDuplex).addr))
	poll.Until(t, "one of two without health", func() bool { return n.answer("epp") == (Answer{Dialect: FullDuplex}) })
}

// A picker is down while no address accepts connections. Its known dialect remains.
func TestExternalPicker_DownWhileNoAddressConnects(t *testing.T) {
	p, n := run(t)
	one, two := start(t, "127.0.0.1:0", acknowledges), start(t, "127.0.0.1:0", acknowledges)
	p.Set("epp", at(one.addr, two.addr))
	poll.Until(t, "both have answered", func() bool { return n.last("epp") == Acknowledges })
	one.server.Stop()
	two.server.Stop()
	poll.Until(t, "it is down", func() bool {
		return slices.Contains(n.all("epp"), Answer{Dialect: Acknowledges, Down: "connection refused", Lost: true})
	})
	start(t, two.addr.String(), acknowledges)
	poll.Until(t, "one of two is back", func() bool { return n.answer("epp") == (Answer{Dialect: Acknowledges}) })
	p.Set("never", at(one.addr))
	poll.Until(t, "one that was never there", func() bool {
		return n.answer("never") == (Answer{Down: "connection refused"})
	})
	p.Remove("never")
	poll.Until(t, "nothing is known of it", func() bool { return n.answer("never") == (Answer{}) })
}

// A picker is also down while all its health ports report that it does not serve. A port that does
// not answer changes nothing.
func TestExternalPicker_DownWhileItsHealthPortReportsIt(t *testing.T) {
	p, n := run(t)
	checks := health.NewServer()
	beside := start(t, "127.0.0.1:0", fails, checks)
	one := start(t, "127.0.0.1:0", fullDuplex)
	p.SetHealth("epp", Health{Port: beside.addr.Port()})
	p.Set("epp", at(one.addr))
	poll.Until(t, "it serves", func() bool { return n.answer("epp") == (Answer{Dialect: FullDuplex}) })
	want := Answer{Dialect: FullDuplex, Down: fmt.Sprintf("its health port %d reports NOT_SERVING", beside.addr.Port())}
	// "" is the status of the whole process.
	checks.SetServingStatus("", healthv1.HealthCheckResponse_NOT_SERVING)
	poll.Until(t, "the process is down", func() bool { return n.answer("epp") == want })
	checks.SetServingStatus(ServiceName, healthv1.HealthCheckResponse_SERVING)
	poll.Until(t, "the service is up", func() bool { return n.answer("epp") == (Answer{Dialect: FullDuplex}) })
	checks.SetServingStatus(ServiceName, healthv1.HealthCheckResponse_NOT_SERVING)
	poll.Until(t, "the service is down", func() bool { return n.answer("epp") == want })
	beside.server.Stop()
	poll.Until(t, "the port is gone", func() bool { return n.answer("epp") == (Answer{Dialect: FullDuplex}) })
}

// WaitAnswered waits for all pickers: otherwise a reconnecting Envoy would briefly get another
// mode.
func TestExternalPicker_WaitAnsweredWaitsForAll(t *testing.T) {
	p, n := run(t)
	if err := p.WaitAnswered(t.Context()); err != nil {
		t.Errorf("with no picker: got %v, want no error", err)
	}
	slow := start(t, "127.0.0.1:0", fails)
	p.Set("nowhere yet", at())
	p.Set("quick", at(start(t, "127.0.0.1:0", acknowledges).addr))
	p.Set("slow", at(slow.addr))
	poll.Until(t, "the slow one was probed twice", func() bool { return slow.probes() > 1 })
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.WaitAnswered(canceled); err == nil {
		t.Error("it did not wait for the slow one")
	}
	slow.mu.Lock()
	slow.behave = fullDuplex
	slow.mu.Unlock()
	if err := p.WaitAnswered(t.Context()); err != nil || n.last("quick") != Acknowledges ||
		n.last("slow") != FullDuplex {
		t.Errorf("%v: quick %v, slow %v, want %v and %v",
			err, n.last("quick"), n.last("slow"), Acknowledges, FullDuplex)
	}
	p.Set("gone", at(start(t, "127.0.0.1:0", fails).addr))
	p.Remove("gone")
	if err := p.WaitAnswered(t.Context()); err != nil {
		t.Error(err)
	}
}

// guarded serves health on loopback over TLS, for calls with the token only.
func guarded(t *testing.T, token string) (checks *health.Server, port uint16, ca []byte) {
	t.Helper()
	https := httptest.NewTLSServer(nil)
	https.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	checks = health.NewServer()
	s := grpc.NewServer(grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: https.TLS.Certificates})),
		grpc.UnaryInterceptor(
			func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
				if got := metadata.ValueFromIncomingContext(ctx, "authorization"); len(got) != 1 ||
					got[0] != "Bearer "+token {
					return nil, status.Errorf(codes.Unauthenticated, "%q is not it", got)
				}
				return handle(ctx, req)
			}))
	healthv1.RegisterHealthServer(s, checks)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return checks, netip.MustParseAddrPort(l.Addr().String()).Port(),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: https.Certificate().Raw})
}

// A health port that requires a credential reports whether the picker serves. If the port rejects
// the credential, or fails verification, the picker counts as up. The reason then quotes no text of
// the server.
func TestSecretRef_HealthPortIsAskedWithItsCredential(t *testing.T) {
	p, n := run(t)
	checks, port, ca := guarded(t, "s3cret")
	verify := func(ca []byte) *dial.TLS {
		return &dial.TLS{ServerName: "example.com", Verify: &dial.Verify{Roots: ca, SANs: []string{"example.com"}}}
	}
	checks.SetServingStatus(ServiceName, healthv1.HealthCheckResponse_NOT_SERVING)
	p.SetHealth("epp", Health{Port: port, TLS: verify(ca), Authorization: "Bearer s3cret"})
	p.Set("epp", at(start(t, "127.0.0.1:0", fullDuplex).addr))
	down := Answer{Dialect: FullDuplex, Down: fmt.Sprintf("its health port %d reports NOT_SERVING", port)}
	poll.Until(t, "it is down", func() bool { return n.answer("epp") == down })
	p.SetHealth("epp", Health{Port: port, TLS: verify(ca), Authorization: "Bearer another"})
	poll.Until(t, "another token", func() bool {
		return n.answer("epp") == (Answer{Dialect: FullDuplex,
			Mute: "it does not accept the credential (Unauthenticated)"})
	})
	p.SetHealth("epp", Health{Port: port, TLS: verify([]byte{}), Authorization: "Bearer s3cret"})
	poll.Until(t, "no CA", func() bool {
		return strings.Contains(n.answer("epp").Mute, "unknown authority") && n.answer("epp").Down == ""
	})
	p.SetHealth("epp", Health{Port: port, TLS: verify(ca), Authorization: "Bearer s3cret"})
	poll.Until(t, "it is down again", func() bool { return n.answer("epp") == down })
	checks.SetServingStatus(ServiceName, healthv1.HealthCheckResponse_SERVING)
	poll.Until(t, "it serves", func() bool { return n.answer("epp") == (Answer{Dialect: FullDuplex}) })
}

func TestExternalPicker_OfWhichTheHealthAloneIsAskedIsSentNoProbe(t *testing.T) {
	p, n := run(t)
	checks := health.NewServer()
	one, beside := start(t, "127.0.0.1:0", fullDuplex), start(t, "127.0.0.1:0", fails, checks)
	checks.SetServingStatus("", healthv1.HealthCheckResponse_NOT_SERVING)
	p.SetHealth("epp", Health{Port: beside.addr.Port()})
	only := at(one.addr)
	only.HealthOnly = true
	p.Set("epp", only)
	if err := p.WaitAnswered(t.Context()); err != nil {
		t.Error(err)
	}
	poll.Until(t, "it is down", func() bool {
		return n.answer("epp") == (Answer{Down: fmt.Sprintf("its health port %d reports "+
			"NOT_SERVING", beside.addr.Port())})
	})
	if got := one.probes() + beside.probes(); got != 0 {
		t.Errorf("%d probes, want 0", got)
	}
	p.Set("epp", at(one.addr))
	poll.Until(t, "Envoy asks it", func() bool { return n.last("epp") == FullDuplex })
}
