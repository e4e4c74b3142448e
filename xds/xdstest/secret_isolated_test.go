package xdstest_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	inspectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/listener/tls_inspector/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/server"
	"github.com/penstock-project/penstock/xds/xdstest"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
)

// tenants returns a listener with a filter chain for each tenant, by SNI. Another limit rebuilds
// all chains.
func tenants(t *testing.T, port, limit uint32, names ...string) *resource.Resource {
	t.Helper()
	whole := &listenerv3.Listener{}
	refs := []resource.Ref{{Type: resource.RouteConfiguration, Name: "routes"}}
	for _, name := range names {
		var l listenerv3.Listener
		if err := proto.Unmarshal(tlsListener(t, "shared", port, "routes", name).Body(), &l); err != nil {
			t.Fatal(err)
		}
		chain := l.FilterChains[0]
		chain.Name, chain.FilterChainMatch = name, &listenerv3.FilterChainMatch{ServerNames: []string{name + ".test"}}
		l.FilterChains = append(whole.FilterChains, chain)
		whole = &l
		refs = append(refs, resource.Ref{Type: resource.Secret, Name: name})
	}
	inspector, err := anypb.New(&inspectorv3.TlsInspector{})
	if err != nil {
		t.Fatal(err)
	}
	whole.ListenerFilters = []*listenerv3.ListenerFilter{{
		Name:       "envoy.filters.listener.tls_inspector",
		ConfigType: &listenerv3.ListenerFilter_TypedConfig{TypedConfig: inspector},
	}}
	whole.PerConnectionBufferLimitBytes = wrapperspb.UInt32(limit)
	return xdstest.Resource(t, resource.Listener, "shared", whole, refs...)
}

// presented returns a certificate's serial number; 0 if the handshake fails.
func presented(port uint32, name string) int64 {
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	config := &tls.Config{ServerName: name + ".test", InsecureSkipVerify: true}
	c, err := tls.DialWithDialer(dialer, "tcp", fmt.Sprintf("127.0.0.1:%d", port), config)
	if err != nil {
		return 0
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// An Envoy that has just started has no last good version. It must still serve other tenants.
func TestNACK_CertificateOfOneTenantHoldsUpNoOtherOnAnEnvoyThatHasJustStarted(t *testing.T) {
	for _, variant := range []string{"DELTA_GRPC", "GRPC"} {
		t.Run(variant, func(t *testing.T) {
			t.Parallel()
			w := &world{T: t, reports: &reports{}, a: backend(t), port: envoytest.FreePort(t)}
			w.control = xdstest.Serve(t, server.Config{Reports: w.reports})
			shared := envoytest.FreePort(t)
			_, key := issue(t, 1)
			w.control.Commit(append(w.base(), tenants(t, shared, 1<<20, "bad", "fine"), certificate(t, "fine", 3),
				pair(t, "bad", []byte("not PEM"), key)))
			w.proxy = startEnvoy(t, w.control, variant)
			w.waitServes(w.port, w.a)
			w.wait("the other tenant's certificate", func() bool { return presented(shared, "fine") == 3 })
			w.wait("a report", func() bool {
				return strings.Contains(w.reports.message("bad"), "Failed to load certificate chain")
			})
			w.control.Commit([]*resource.Resource{
				tenants(t, shared, 1<<19, "bad", "fine", "more"), certificate(t, "more", 4),
			})
			w.wait("another tenant's change", func() bool { return presented(shared, "more") == 4 })
			if serial := presented(shared, "fine"); serial != 3 {
				t.Errorf("certificate %d of the tenant that changed nothing, want 3", serial)
			}
			for _, name := range []string{"fine", "more", "shared"} {
				if m := w.reports.message(name); m != "" {
					t.Errorf("%s has the report %q, want none", name, m)
				}
			}
			if m := w.reports.message("bad"); !strings.Contains(m, "Failed to load certificate chain") {
				t.Errorf(`the report of the certificate at fault: got %q, want "Failed to load certificate chain"`, m)
			}
			w.control.Commit([]*resource.Resource{certificate(t, "bad", 5)})
			w.wait("the corrected certificate", func() bool { return presented(shared, "bad") == 5 })
			w.wait("the end of the report", func() bool { return w.reports.message("bad") == "" })
		})
	}
}
