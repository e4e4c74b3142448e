package probe

import (
	"context"
	"fmt"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	modev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/penstock-project/penstock/picker/dial"
	"github.com/penstock-project/penstock/picker/extproc"
)

// ServiceName is the name of a picker's service in gRPC health checks.
const ServiceName = "envoy.service.ext_proc.v3.ExternalProcessor"

// reconnect has a short BaseDelay, because Envoy sends requests to a restarted picker at once.
var reconnect = backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
	MaxDelay: 5 * time.Second}

const askAgain = time.Second

func (p *Prober) connect(ctx context.Context, at address, picker Picker, results chan<- result) {
	if picker.HealthOnly {
		p.followHealth(ctx, at, results)
		return
	}
	conn, err := dial.Connect(at.addr, picker.TLS, grpc.WithIdleTimeout(0),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: p.cfg.Timeout}))
	if err != nil {
		p.cfg.Log.Warn("external picker can't be probed", "picker", at.name, "address", at.addr, "error", err)
		return
	}
	defer func() { _ = conn.Close() }()
	send := func(a Answer) {
		select {
		case results <- result{address: at, Answer: a}:
		case <-ctx.Done():
		}
	}
	healthy := make(chan struct{})
	go func() {
		defer close(healthy)
		p.followHealth(ctx, at, results)
	}()
	defer func() { <-healthy }() // both loops, followHealth's and the one below, run until ctx ends

	var lost time.Time
	closed := false
	down := func() {
		if why := p.unreachable(ctx, conn); why != "" {
			closed = closed || why == extproc.ReasonClosedPort
			send(Answer{Down: why, Lost: closed && time.Since(lost) < p.cfg.LostFor})
		}
	}
	for ready(ctx, conn, down) {
		health := p.servesHealth(ctx, conn)
		send(Answer{Health: health}) // first, because finding the dialect may take long
		d, ok := picker.Dialect, true
		if d == Unknown {
			d, ok = p.probeUntilAnswered(ctx, at, conn)
		}
		if ok {
			send(Answer{Dialect: d, Health: health})
			p.followSigns(ctx, at, conn, results)
		}
		lost, closed = time.Now(), false
	}
}

func (p *Prober) servesHealth(ctx context.Context, conn *grpc.ClientConn) bool {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	r, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{Service: ServiceName})
	return err == nil &&
		(r.Status == healthv1.HealthCheckResponse_SERVING || r.Status == healthv1.HealthCheckResponse_NOT_SERVING)
}

func (p *Prober) unreachable(ctx context.Context, conn *grpc.ClientConn) string {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	_, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{Service: ServiceName})
	if status.Code(err) != codes.Unavailable || ctx.Err() != nil {
		return ""
	}
	return extproc.Reason(err)
}

// ready returns true when conn is connected, and false when ctx ends. It calls down repeatedly
// while attempts to connect fail. gRPC's state stays TransientFailure if later attempts fail for
// another reason, so only a new call finds the reason.
func ready(ctx context.Context, conn *grpc.ClientConn, down func()) bool {
	pause := reconnect.BaseDelay
	for {
		state, limit := conn.GetState(), askAgain
		switch state {
		case connectivity.Ready:
			return ctx.Err() == nil
		case connectivity.Idle:
			conn.Connect()
		case connectivity.TransientFailure:
			down()
			limit, pause = pause, min(2*pause, askAgain)
		}
		wait, cancel := context.WithTimeout(ctx, limit)
		conn.WaitForStateChange(wait, state)
		cancel()
		if ctx.Err() != nil {
			return false
		}
	}
}

func (p *Prober) probeUntilAnswered(ctx context.Context, at address, conn *grpc.ClientConn) (Dialect, bool) {
	for pause := p.cfg.Retry; ; pause = min(2*pause, 20*p.cfg.Retry) {
		d, err := p.probe(ctx, conn)
		if err == nil {
			return d, true
		}
		p.cfg.Log.Debug("external picker did not answer its probe", "picker", at.name, "address", at.addr, "error", err)
		wait, cancel := context.WithTimeout(ctx, pause)
		lost := conn.GetState() != connectivity.Ready || conn.WaitForStateChange(wait, connectivity.Ready)
		cancel()
		if lost || ctx.Err() != nil {
			return Unknown, false
		}
	}
}

func (p *Prober) probe(ctx context.Context, conn *grpc.ClientConn) (Dialect, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	stream, err := extprocv3.NewExternalProcessorClient(conn).Process(ctx)
	if err != nil {
		return Unknown, err
	}
	for _, m := range probeMessages() {
		if err := stream.Send(m); err != nil {
			break // Recv returns the reason
		}
	}
	for {
		m, err := stream.Recv()
		if err != nil {
			return Unknown, fmt.Errorf("no answer to a body: %w", err)
		}
		switch r := m.Response.(type) {
		case *extprocv3.ProcessingResponse_RequestBody:
			if r.RequestBody.GetResponse().GetBodyMutation().GetStreamedResponse() != nil {
				return FullDuplex, nil
			}
			return Acknowledges, nil
		case *extprocv3.ProcessingResponse_ImmediateResponse:
			if code := r.ImmediateResponse.GetStatus().GetCode(); code < 400 || code >= 500 {
				// The picker's pool may have no pods yet.
				return Unknown, fmt.Errorf("immediate response with status %d", code)
			}
			return FullDuplex, nil // the picker rejected the request, as the protocol allows
		}
	}
}

func probeMessages() []*extprocv3.ProcessingRequest {
	headers := &corev3.HeaderMap{}
	for _, h := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":authority", "penstock"}, {":path", "/v1/completions"},
		{"content-type", "application/json"}, {"content-length", "1"}, {"user-agent", "penstock"},
		{"x-request-id", "penstock-probe"},
	} {
		headers.Headers = append(headers.Headers, &corev3.HeaderValue{Key: h[0], RawValue: []byte(h[1])})
	}
	body := func(text string, end bool) *extprocv3.ProcessingRequest {
		return &extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestBody{
			RequestBody: &extprocv3.HttpBody{Body: []byte(text), EndOfStream: end},
		}}
	}
	return []*extprocv3.ProcessingRequest{
		{
			Request: &extprocv3.ProcessingRequest_RequestHeaders{
				RequestHeaders: &extprocv3.HttpHeaders{Headers: headers},
			},
			ProtocolConfig: &extprocv3.ProtocolConfiguration{
				RequestBodyMode: modev3.ProcessingMode_FULL_DUPLEX_STREAMED,
			},
		},
		body("?", false), body("", true),
	}
}
