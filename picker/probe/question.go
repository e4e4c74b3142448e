package probe

import (
	"context"
	"crypto/tls"
	"fmt"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	modev3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

// ServiceName is what health services know a picker as.
const ServiceName = "envoy.service.ext_proc.v3.ExternalProcessor"

// again is how long one waits before a connection is tried again: a picker that comes back soon has requests.
var again = backoff.Config{BaseDelay: time.Second, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second}

// converse keeps a connection to one address, and asks once for each until it is answered. It returns when ctx ends.
func (p *Prober) converse(ctx context.Context, at place, picker Picker, news chan<- found) {
	creds := insecure.NewCredentials()
	if picker.TLS {
		creds = credentials.NewTLS(&tls.Config{InsecureSkipVerify: true, ServerName: picker.SNI})
	}
	conn, err := grpc.NewClient("passthrough:///"+at.addr.String(), grpc.WithTransportCredentials(creds), grpc.WithIdleTimeout(0),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: again, MinConnectTimeout: p.cfg.Timeout}))
	if err != nil {
		p.cfg.Log.Warn("a picker cannot be asked how it answers", "picker", at.name, "address", at.addr, "error", err)
		return
	}
	defer func() { _ = conn.Close() }()
	say := func(a Answer) {
		select {
		case news <- found{at, a}:
		case <-ctx.Done():
		}
	}
	for ready(ctx, conn) {
		health := p.serves(ctx, conn)
		say(Answer{Health: health}) // the next question may not be answered for long
		if d, ok := p.insist(ctx, at, conn); ok {
			say(Answer{d, health})
			conn.WaitForStateChange(ctx, connectivity.Ready)
		}
	}
}

// serves says whether a picker can be asked whether it is the one to ask.
func (p *Prober) serves(ctx context.Context, conn *grpc.ClientConn) bool {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	r, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{Service: ServiceName})
	return err == nil && (r.Status == healthv1.HealthCheckResponse_SERVING || r.Status == healthv1.HealthCheckResponse_NOT_SERVING)
}

// ready returns when conn is connected; false when ctx has ended.
func ready(ctx context.Context, conn *grpc.ClientConn) bool {
	for {
		state := conn.GetState()
		switch state {
		case connectivity.Ready:
			return ctx.Err() == nil
		case connectivity.Idle:
			conn.Connect()
		}
		if !conn.WaitForStateChange(ctx, state) {
			return false
		}
	}
}

// insist asks until there is an answer; false when the connection is lost, or ctx has ended.
func (p *Prober) insist(ctx context.Context, at place, conn *grpc.ClientConn) (Dialect, bool) {
	for pause := p.cfg.Retry; ; pause = min(2*pause, 20*p.cfg.Retry) {
		d, err := p.ask(ctx, conn)
		if err == nil {
			return d, true
		}
		p.cfg.Log.Debug("a picker did not show how it answers", "picker", at.name, "address", at.addr, "error", err)
		wait, cancel := context.WithTimeout(ctx, pause)
		lost := conn.GetState() != connectivity.Ready || conn.WaitForStateChange(wait, connectivity.Ready)
		cancel()
		if lost || ctx.Err() != nil {
			return Unknown, false
		}
	}
}

// ask shows a picker a request, in the pieces in which Envoy would.
func (p *Prober) ask(ctx context.Context, conn *grpc.ClientConn) (Dialect, error) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	stream, err := extprocv3.NewExternalProcessorClient(conn).Process(ctx)
	if err != nil {
		return Unknown, err
	}
	for _, m := range question() {
		if err := stream.Send(m); err != nil {
			break // why is what Recv says
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
				return Unknown, fmt.Errorf("a refusal: %d", code) // it has nobody to name yet, perhaps
			}
			return FullDuplex, nil // it has read the body and found fault with it, as the protocol says
		}
	}
}

// question is a request as Envoy shows it in FULL_DUPLEX_STREAMED: headers, a piece of the body, its end.
func question() []*extprocv3.ProcessingRequest {
	headers := &corev3.HeaderMap{}
	for _, h := range [][2]string{
		{":method", "POST"}, {":scheme", "http"}, {":authority", "penstock"}, {":path", "/v1/completions"},
		{"content-type", "application/json"}, {"content-length", "1"}, {"user-agent", "penstock"}, {"x-request-id", "penstock-dialect"},
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
			Request:        &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: &extprocv3.HttpHeaders{Headers: headers}},
			ProtocolConfig: &extprocv3.ProtocolConfiguration{RequestBodyMode: modev3.ProcessingMode_FULL_DUPLEX_STREAMED},
		},
		body("?", false), body("", true),
	}
}
