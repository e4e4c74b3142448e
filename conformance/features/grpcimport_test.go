package features

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// A cluster that only speaks HTTP/1.1 gets no gRPC calls, but still other requests. Other clusters
// serve the calls, also behind a gateway with appProtocol kubernetes.io/h2c.
func TestGRPC_ClusterWithoutHTTP2EndsNoCall(t *testing.T) {
	for _, selection := range []string{"Weighted", "LeastLoad"} {
		t.Run(selection, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			plain, calls := s.cluster("plain"), s.cluster("calls")
			calls.server = s.h2c("calls", speaking(calls))
			s.h2c("parent", speaking(&cluster{name: "parent"}))
			s.ports["web"] = s.Port()
			s.up("grpcimport.yaml", with("three", selection))
			conn := s.dial()
			s.Eventually("a call is served", func() error {
				_, err := s.check(conn)
				return err
			})
			seen := map[string]int{}
			for range 20 {
				by, err := s.check(conn)
				if err != nil {
					t.Errorf("a call failed: %v", err)
				}
				seen[by]++
			}
			if selection == "Weighted" && (seen["calls"] == 0 || seen["parent"] == 0) {
				t.Errorf("calls were served by %v, want some by calls and some by parent", seen)
			}
			if asked, served := plain.counts(); asked > 0 || served > 0 {
				t.Errorf("the cluster that speaks HTTP/1.1 was asked for %d picks, and served %d calls, want 0 and 0",
					asked, served)
			}
			s.reports("cluster plain of InferencePoolImport default/far speaks HTTP/1.1, and takes no gRPC")
			s.Eventually("the cluster gets other requests", func() error {
				got, err := s.post("http://"+s.address("web")+"/v1/chat/completions", question)
				return because(err == nil && got.by() == "plain", got.status, " ", got.by(), " ", err)
			})
			if strings.Contains(s.metrics(), `penstock_selection_barred{cluster="plain",import="default/far"} 1`) {
				t.Error("calls that it could not take have barred the cluster")
			}
			s.write("grpcimport.yaml", with("parent"))
			s.Eventually("a gateway alone serves", func() error {
				by, err := s.check(conn)
				return because(err == nil && by == "parent", by, " ", err)
			})
			s.write("grpcimport.yaml", with("plain"))
			s.Eventually("a call that no cluster can take fails", func() error {
				_, err := s.check(conn)
				return because(status.Code(err) == codes.Unavailable, fmt.Sprint(err))
			})
			s.reports("InferencePoolImport default/far speaks HTTP/1.1, and gRPC needs HTTP/2")
		})
	}
}

func speaking(c *cluster) http.Handler {
	named := func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		_ = grpc.SetHeader(ctx, metadata.Pairs("x-served-by", c.name))
		return handler(ctx, req)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(named))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("content-type"), "application/grpc") {
			server.ServeHTTP(w, r)
			return
		}
		c.ServeHTTP(w, r)
	})
}

func (s *site) dial() *grpc.ClientConn {
	s.Helper()
	conn, err := grpc.NewClient(s.address("gateway"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (s *site) check(conn *grpc.ClientConn) (by string, err error) {
	var header metadata.MD
	client := grpc_health_v1.NewHealthClient(conn)
	_, err = client.Check(s.Context(), &grpc_health_v1.HealthCheckRequest{}, grpc.Header(&header))
	return strings.Join(header.Get("x-served-by"), ","), err
}
