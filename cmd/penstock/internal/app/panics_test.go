package app

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
)

func counted(t *testing.T, c prometheus.Collector) (n float64) {
	t.Helper()
	r := prometheus.NewRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			n += m.GetCounter().GetValue()
		}
	}
	return n
}

func TestPanic_OfAPageIsA500AndItsStackIsLoggedOnce(t *testing.T) {
	var log bytes.Buffer
	p := newPanics(slog.New(slog.NewTextHandler(&log, nil)))
	page := p.pages(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("boom") }))
	for range 3 {
		w := httptest.NewRecorder()
		page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/status", nil))
		if w.Code != http.StatusInternalServerError {
			t.Errorf("status %d, want %d", w.Code, http.StatusInternalServerError)
		}
	}
	if n := counted(t, p.count); n != 3 {
		t.Errorf("%v are counted, want 3", n)
	}
	if text := log.String(); strings.Count(text, "boom") != 1 || !strings.Contains(text, "panics_test.go") {
		t.Errorf("the log is %s, want boom once, with its place", text)
	}
}

func TestPanic_OfAStreamOrCallEndsThatOneAlone(t *testing.T) {
	p := newPanics(slog.New(slog.DiscardHandler))
	s := grpc.NewServer(p.calls(partPick)...)
	s.RegisterService(&grpc.ServiceDesc{ServiceName: "test", HandlerType: (*any)(nil), Streams: []grpc.StreamDesc{{
		StreamName: "Call", ServerStreams: true, ClientStreams: true,
		Handler: func(_ any, stream grpc.ServerStream) error {
			var m emptypb.Empty
			if err := stream.RecvMsg(&m); err != nil {
				return err
			}
			panic("a bug")
		},
	}}, Methods: []grpc.MethodDesc{{
		MethodName: "Once",
		Handler: func(_ any, ctx context.Context, _ func(any) error, intercept grpc.UnaryServerInterceptor) (any,
			error) {
			return intercept(ctx, nil, &grpc.UnaryServerInfo{FullMethod: "/test/Once"},
				func(context.Context, any) (any, error) { panic("a bug") })
		},
	}}}, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = s.Serve(l) }()
	defer s.Stop()
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	open := func() grpc.ClientStream {
		stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
			"/test/Call")
		if err != nil {
			t.Fatal(err)
		}
		return stream
	}
	first, second := open(), open()
	for _, stream := range []grpc.ClientStream{first, second} {
		if err := stream.SendMsg(&emptypb.Empty{}); err != nil {
			t.Fatal(err)
		}
		if err := stream.RecvMsg(&emptypb.Empty{}); status.Code(err) != codes.Internal {
			t.Errorf("the stream ended with %v, want Internal", err)
		}
	}
	if err := conn.Invoke(t.Context(), "/test/Once", &emptypb.Empty{},
		&emptypb.Empty{}); status.Code(err) != codes.Internal {
		t.Errorf("the unary call ended with %v, want Internal", err)
	}
	if n := counted(t, p.count); n != 3 {
		t.Errorf("%v are counted, want 3", n)
	}
}
