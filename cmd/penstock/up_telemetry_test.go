package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

type spans struct {
	collector.UnimplementedTraceServiceServer
	mu   sync.Mutex
	list []span
}

type span struct {
	*tracev1.Span
	service string
}

func (s *spans) Export(_ context.Context, req *collector.ExportTraceServiceRequest) (
	*collector.ExportTraceServiceResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range req.ResourceSpans {
		service := textOf(r.Resource.GetAttributes(), "service.name")
		for _, scope := range r.ScopeSpans {
			for _, sp := range scope.Spans {
				s.list = append(s.list, span{sp, service})
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func (s *spans) all() []span {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

func (s *spans) trace(id []byte) []span {
	return slices.DeleteFunc(s.all(), func(sp span) bool { return !slices.Equal(sp.TraceId, id) })
}

func textOf(list []*common.KeyValue, key string) string {
	for _, kv := range list {
		if kv.Key == key {
			return kv.Value.GetStringValue()
		}
	}
	return ""
}

func names(list []span) []string {
	var out []string
	for _, sp := range list {
		out = append(out, sp.service+": "+sp.Name)
	}
	slices.Sort(out)
	return out
}

// find returns the first span whose name has a prefix; with parent, only a child of parent.
func find(list []span, name string, parent *span) *span {
	for _, sp := range list {
		if strings.HasPrefix(sp.Name, name) && (parent == nil || slices.Equal(sp.ParentSpanId, parent.SpanId)) {
			return &sp
		}
	}
	return nil
}

func collect(t *testing.T) (*spans, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, server := &spans{}, grpc.NewServer()
	collector.RegisterTraceServiceServer(server, s)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return s, l.Addr().String()
}

func TestTracing_RequestToPickAndFileToProxy(t *testing.T) {
	t.Parallel()
	got, address := collect(t)
	port := freePort(t)
	files := chatFiles(port, serverNamed(t, "pod-1"))
	s := prepare(t, files)
	s.env = append(s.env, "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+address, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
		"OTEL_BSP_SCHEDULE_DELAY=50")
	s.start()
	s.out.expect(t, "serves at")

	// The client's trace continues in Envoy's spans and in the picker's span.
	const client = "4bf92f3577b34da6a3ce929d0e0e4736"
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, local(port)+"/v1/chat/completions",
		strings.NewReader(question))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("traceparent", "00-"+client+"-00f067aa0ba902b7-01")
	if r, err := do(http.DefaultClient, req); err != nil || r.status != http.StatusOK {
		t.Fatalf("%+v %v, want status %v", r, err, http.StatusOK)
	}
	eventually(t, "ingress, ext_proc and pick are one trace", func() error {
		var mine []span
		for _, sp := range got.all() {
			if fmt.Sprintf("%x", sp.TraceId) == client {
				mine = append(mine, sp)
			}
		}
		ingress := find(mine, "ingress", nil)
		pick := find(mine, "pick", nil)
		if ingress == nil || pick == nil {
			return fmt.Errorf("have %q, want ingress and pick", names(mine))
		}
		call := find(mine, "async envoy.service.ext_proc.v3.ExternalProcessor.Process", nil)
		if call == nil {
			return fmt.Errorf("got %q, want Envoy's call to the picker", names(mine))
		}
		if !slices.Equal(pick.ParentSpanId, call.SpanId) || pick.service != "penstock" {
			return fmt.Errorf("the pick of %q is %v, want one of penstock below Envoy's call", pick.service, pick)
		}
		if served := textOf(pick.Attributes, "pool"); served != "default/chat" &&
			!strings.Contains(fmt.Sprint(pick.Attributes), "default/chat") {
			return fmt.Errorf("the pick: got %v, want pool default/chat", pick.Attributes)
		}
		return nil
	})

	s.write("route.yaml", strings.Replace(files["route.yaml"], "value: /}", "value: /v1}", 1))
	eventually(t, "the change leads to translation and to the proxy's ACK", func() error {
		for _, change := range got.all() {
			if change.Name != "change" {
				continue
			}
			all := got.trace(change.TraceId)
			if find(all, "translate", &change) != nil && find(all, "publish", &change) != nil {
				return nil
			}
		}
		return fmt.Errorf("have %q, want translate and publish below a change", names(got.all()))
	})
}
