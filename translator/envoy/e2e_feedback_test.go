package envoy

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	logv3 "github.com/envoyproxy/go-control-plane/envoy/data/accesslog/v3"
	alsv3 "github.com/envoyproxy/go-control-plane/envoy/service/accesslog/v3"
	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/grpc"

	"github.com/penstock-project/penstock/translator/model"
)

type entry struct {
	log string
	*logv3.HTTPAccessLogEntry
}

type feedback struct {
	alsv3.UnimplementedAccessLogServiceServer
	mu      sync.Mutex
	entries []entry
}

func (f *feedback) StreamAccessLogs(s alsv3.AccessLogService_StreamAccessLogsServer) error {
	name := ""
	for {
		m, err := s.Recv()
		if err != nil {
			return nil
		}
		if m.Identifier != nil { // only a stream's first message has the identifier
			name = m.Identifier.LogName
		}
		f.mu.Lock()
		for _, e := range m.GetHttpLogs().GetLogEntry() {
			f.entries = append(f.entries, entry{name, e})
		}
		f.mu.Unlock()
	}
}

func (f *feedback) find(path string) map[string]entry {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string]entry{}
	for _, e := range f.entries {
		if e.Request.GetPath() == path {
			out[e.log] = e
		}
	}
	return out
}

type collector struct {
	collectorv1.UnimplementedTraceServiceServer
	mu    sync.Mutex
	spans []string // "SERVICE/SPAN"
}

func (c *collector) Export(_ context.Context, req *collectorv1.ExportTraceServiceRequest) (
	*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rs := range req.ResourceSpans {
		service := ""
		for _, a := range rs.Resource.GetAttributes() {
			if a.Key == "service.name" {
				service = a.Value.GetStringValue()
			}
		}
		for _, ss := range rs.ScopeSpans {
			for _, s := range ss.Spans {
				c.spans = append(c.spans, service+"/"+s.Name)
			}
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

func (c *collector) has(part string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if strings.Contains(s, part) {
			return true
		}
	}
	return false
}

func TestAccessLog_ReportsPicksToThePickerAndToFiles(t *testing.T) {
	t.Parallel()
	a, b1 := startPod(t, "a", 200), startPod(t, "b1", 200)
	var f feedback
	p := startPicker(t,
		map[string]script{"a": {endpoints: a.address.String()}, "full": {status: 429},
			"b": {endpoints: b1.address.String()}}, &f)
	spans := &collector{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	collectorv1.RegisterTraceServiceServer(s, spans)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	r := newRig(t, p.address)
	file := filepath.Join(t.TempDir(), "access.log")
	r.cfg = Config{AccessLog: file, Tracing: &Tracing{SamplingPercent: 100}}
	r.cluster(model.Cluster{Name: model.Collector, Protocol: model.GRPC},
		endpoints(netip.MustParseAddrPort(l.Addr().String()))...)
	r.cluster(model.Cluster{Name: named("a"), Protocol: model.HTTP1, Fallback: model.FallbackNone},
		endpoints(a.address)...)
	hop := r.poolB(b1)
	r.cluster(model.Cluster{Name: named("spilling"), Protocol: model.HTTP1, Fallback: model.FallbackSpill, Hops: true},
		append(endpoints(a.address), model.Endpoint{Hop: hop})...)
	r.forward("local", backends(pool("a", "a", model.BodyBuffered)))
	r.forward("spilled", backends(spilling(pool("spilling", "full", model.BodyBuffered), hop)))
	r.forward("service", backends(model.WeightedBackend{Cluster: named("a"), Weight: 1}))
	r.start()
	for _, host := range []string{"service", "local", "spilled"} {
		req := r.request("POST", host, "/"+host, []byte("{}"))
		if got, err := r.do(req); err != nil || host != "service" && got.status != 200 {
			t.Fatalf("%s: got %s %v, want 200", host, got, err)
		}
	}
	r.envoy.Wait("the local pick came back", func() bool { return len(f.find("/local")) == 1 })
	e := f.find("/local")["ns/gw"]
	lb, ours := e.GetCommonProperties().GetMetadata().GetFilterMetadata()["envoy.lb"],
		e.GetCommonProperties().GetMetadata().GetFilterMetadata()["penstock"]
	if lb.GetFields()[servedKey].GetStringValue() != a.address.String() ||
		ours.GetFields()["lease"].GetStringValue() != "lease of "+a.address.String() {
		t.Errorf("the entry of a pick: got %v, want the served address, and its lease", e)
	}
	// The hop's pick is logged with the log name of hops. The edge's call returned no pick, so the
	// edge logs no entry.
	r.envoy.Wait("the spilled pick came back", func() bool { return len(f.find("/spilled")) == 1 })
	spilled := f.find("/spilled")[model.HopListener].GetCommonProperties().GetMetadata().GetFilterMetadata()["envoy.lb"]
	if spilled.GetFields()[servedKey].GetStringValue() != b1.address.String() {
		t.Errorf("the entry of a spilled pick: got %v, want %s", f.find("/spilled"), b1.address)
	}
	if len(f.find("/service")) != 0 {
		t.Error("a request that no picker was asked about bothers the picker")
	}
	for _, span := range []string{"penstock/ingress", "penstock/router", "ExternalProcessor"} {
		r.envoy.Wait("a span "+span, func() bool { return spans.has(span) })
	}
	r.envoy.Wait("the log file names picked and served", func() bool {
		_, _ = r.envoy.Post("/reopen_logs") // otherwise Envoy writes the file only every 10 s
		text, _ := os.ReadFile(file)
		return strings.Contains(string(text), `"picked":"`+a.address.String()+`"`) &&
			strings.Contains(string(text), `"route":"spilled"`)
	})
}

// Envoy must log a request in flight periodically, with its lease and the endpoint that serves it,
// because the picker counts the request only while it is logged.
func TestAccessLog_RenewsRequestInFlightAtEndpointThatServesIt(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}, 1), make(chan struct{})
	slow := (&pod{name: "slow"}).serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(200)
		w.(http.Flusher).Flush()
		arrived <- struct{}{}
		<-release
		_, _ = w.Write([]byte("a token"))
	}))
	closed := closedPort(t)
	var f feedback
	p := startPicker(t, map[string]script{"a": {endpoints: list(closed, slow.address)}}, &f)
	r := newRig(t, p.address)
	file := filepath.Join(t.TempDir(), "access.log")
	r.cfg = Config{AccessLog: file}
	r.cluster(model.Cluster{Name: named("a"), Protocol: model.HTTP1, Fallback: model.FallbackNone},
		endpoints(closed, slow.address)...)
	r.forward("local", backends(pool("a", "a", model.BodyNone)))
	r.start()
	ended := make(chan error, 1)
	go func() {
		got, err := r.do(r.request("POST", "local", "/held", []byte("{}")))
		if err == nil && got.status != 200 {
			err = fmt.Errorf("answered %s, want 200", got)
		}
		ended <- err
	}()
	<-arrived
	logged := func(kind logv3.AccessLogType) (out []entry) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, e := range f.entries {
			if e.Request.GetPath() == "/held" && e.GetCommonProperties().GetAccessLogType() == kind {
				out = append(out, e)
			}
		}
		return out
	}
	r.envoy.Wait("the request in flight is logged twice",
		func() bool { return len(logged(logv3.AccessLogType_DownstreamPeriodic)) >= 2 })
	for _, e := range logged(logv3.AccessLogType_DownstreamPeriodic) {
		data := e.GetCommonProperties().GetMetadata().GetFilterMetadata()
		if data["envoy.lb"].GetFields()[servedKey].GetStringValue() != slow.address.String() ||
			data["penstock"].GetFields()["lease"].GetStringValue() == "" {
			t.Errorf("the entry of a request in flight: got %v, want %s and a lease", e, slow.address)
		}
		// From these times, the picker computes a server's prefill rate and its unread prompts.
		common := e.GetCommonProperties()
		sent, headers := common.GetTimeToLastUpstreamTxByte().AsDuration(),
			common.GetTimeToFirstUpstreamRxByte().AsDuration()
		if sent <= 0 || headers < sent || e.Response.GetResponseBodyBytes() != 0 || len(common.GetCustomTags()) > 0 {
			t.Errorf("sent after %s, headers after %s, want in this order, and no body: %v", sent, headers, e)
		}
	}
	if len(logged(logv3.AccessLogType_DownstreamEnd)) > 0 {
		t.Error("a request in flight is logged as ended")
	}
	close(release)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	r.envoy.Wait("the end is logged", func() bool { return len(logged(logv3.AccessLogType_DownstreamEnd)) == 1 })
	common := logged(logv3.AccessLogType_DownstreamEnd)[0].GetCommonProperties()
	body, err := strconv.Atoi(common.GetCustomTags()["first_body"])
	headers := common.GetTimeToFirstUpstreamRxByte().AsDuration() - common.GetTimeToLastUpstreamTxByte().AsDuration()
	if err != nil || time.Duration(body)*time.Microsecond <= headers {
		t.Errorf("the first byte of the body came after %d us, the headers after %s, want them earlier: %v",
			body, headers, err)
	}
	r.envoy.Wait("the log file has the request", func() bool {
		_, _ = r.envoy.Post("/reopen_logs")
		text, _ := os.ReadFile(file)
		return strings.Contains(string(text), "/held")
	})
	if text, _ := os.ReadFile(file); strings.Count(string(text), "/held") != 1 {
		t.Errorf("the log file has the request more than once, want once:\n%s", text)
	}
}
