package attacks

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"

	"github.com/penstock-project/penstock/conformance/promises/process/processtest"
)

func (s *set) picks(t *testing.T, server string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient(local(s.picker), grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: server, InsecureSkipVerify: true, // the attacker trusts every server
		Certificates: []tls.Certificate{s.good.Identity("good", gatewayPath, time.Hour)},
	})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// HoldPicks opens calls for picks from a pool. Each call has the headers of a request, and a body
// that does not end. HoldPicks does not repeat calls that the picker ends.
func HoldPicks(ctx context.Context, picker *grpc.ClientConn, pool string, calls, size int) {
	part := bytes.Repeat([]byte("a"), 32<<10)
	ctx = metadata.AppendToOutgoingContext(ctx, "x-penstock-pool", pool)
	for range calls {
		s, err := extprocv3.NewExternalProcessorClient(picker).Process(ctx)
		if err != nil {
			return
		}
		headers := &extprocv3.HttpHeaders{
			Headers: &corev3.HeaderMap{
				Headers: []*corev3.HeaderValue{{Key: ":method", RawValue: []byte("POST")},
					{Key: ":path", RawValue: []byte("/v1/chat/completions")}},
			},
		}
		if s.Send(
			&extprocv3.ProcessingRequest{
				Request: &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: headers},
			}) != nil {
			return
		}
		for sent := 0; sent < size; sent += len(part) {
			if s.Send(&extprocv3.ProcessingRequest{
				Request: &extprocv3.ProcessingRequest_RequestBody{RequestBody: &extprocv3.HttpBody{Body: part}},
			}) != nil {
				break
			}
		}
	}
}

func TestPeerListener_HostileMemberAtThePickersPortHoldsUpNoPick(t *testing.T) {
	s := startSecuredSet(t, fmt.Sprintf("  peerListener: {port: %d}\n", processtest.Port(t)))
	s.Write("site.yaml", strings.Replace(s.objects(), "kind: InferencePool\nmetadata: {name: chat}",
		"kind: InferencePool\nmetadata: {name: chat, annotations: {inference.networking.x-k8s.io/export: ClusterSet, "+
			"penstock.dev/export-to: good}}", 1))
	s.Write("secret.yaml", poolObjects("secret", "/secret", []string{"gw"}, at(s.server)))
	conn := s.picks(t, chatAuthority)
	s.Eventually("the member picks", func() error {
		if code := Pick(t.Context(), conn, "", "default/chat"); code != codes.OK {
			return fmt.Errorf("a pick of the member: got %v, want OK", code)
		}
		return nil
	})
	for _, pool := range []string{"default/secret", "default/good", "default/good@good", "good/good", "",
		strings.Repeat("x", 1<<16)} {
		if code := Pick(t.Context(), conn, "", pool); code == codes.OK {
			t.Errorf("the member picks from %.40q, want an error", pool)
		}
	}
	for _, server := range []string{"secret.default.east.pool.penstock", "good.default.good.pool.penstock", "hops",
		"penstock"} {
		if code := Pick(t.Context(), s.picks(t, server), "", "default/secret"); code == codes.OK {
			t.Errorf("the member picks by the name %s, want an error", server)
		}
	}
	if _, err := StealKey(t.Context(), conn, "default/gw"); err == nil {
		t.Error("the member reads the Gateway's key")
	}
	traffic, peak, before := s.traffic(), s.peak(s.penstock), s.rss(s.penstock)
	ctx, end := context.WithCancel(t.Context())
	var holding sync.WaitGroup
	for range 4 {
		conn := s.picks(t, chatAuthority)
		holding.Go(func() { HoldPicks(ctx, conn, "default/chat", 4500, 32<<10) })
	}
	holding.Wait()
	s.Eventually("calls beyond the bound end", func() error {
		if code := Pick(t.Context(), conn, "", "default/chat"); code != codes.ResourceExhausted {
			return fmt.Errorf("a pick of the member: got %v, want ResourceExhausted", code)
		}
		return nil
	})
	for range 100 {
		if err := s.ask(http.MethodPost, "/v1/chat/completions", `{"model":"m"}`); err != nil {
			t.Errorf("a request of a client beside a member's open calls: %v", err)
			break
		}
	}
	traffic.end()
	if most := peak(); most > before+1024 {
		t.Errorf("Penstock had %.0f MiB before, and %.0f MiB at the peak, want at most %.0f",
			before, most, before+1024)
	}
	end()
	s.Eventually("the member picks again", func() error {
		if code := Pick(t.Context(), conn, "", "default/chat"); code != codes.OK {
			return fmt.Errorf("a pick of the member: got %v, want OK", code)
		}
		return nil
	})
}
