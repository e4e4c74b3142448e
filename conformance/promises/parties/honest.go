package parties

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/multicluster/export"
	"github.com/penstock-project/penstock/multicluster/federation"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// Honest is a correct member of a cluster set. It exports the pool default/NAME in ParentMode.
type Honest struct {
	*CA
	Listener   net.Listener
	Federation *federation.Federation
}

// NewHonest starts a member that exports the pool default/name. gateway is the address of the
// member's gateway.
func NewHonest(t testing.TB, name string, gateway *net.TCPAddr) *Honest {
	t.Helper()
	h := &Honest{CA: NewCA(t), Listener: listen(t)}
	certificate := h.Identity(name, federation.ProcessPath, time.Hour)
	h.Federation = federation.New(federation.Config{
		Certificate: func() (*tls.Certificate, error) { return &certificate, nil },
		Apply:       func(...registry.Update) bool { return true }, Connected: func(string, bool) {},
		Placed: func(registry.Reports) {},
	})
	h.Federation.Publish("uid-of-"+name, 1, time.Now())
	entry := inferenceapi.ImportedCluster{Name: name, RoutingMode: inferenceapi.ParentMode,
		Parents: []inferenceapi.ParentImport{{
			Service: inferenceapi.ServiceImports{{
				Addresses: []string{gateway.IP.String()},
				Ports:     []inferenceapi.Port{{Number: int32(gateway.Port), AppProtocol: "http"}},
			}},
		}}}
	pool := objectid.Pool{Namespace: "default", Name: name}
	if err := h.Federation.SetExports([]export.Export{{Pool: pool, Entry: entry}}, false); err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(h.Federation.ServerOptions()...)
	h.Federation.Register(server)
	go func() { _ = server.Serve(h.Listener) }() // ends with Stop
	t.Cleanup(server.Stop)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h.Federation.Run(ctx) // ends with stop
	}()
	t.Cleanup(func() {
		stop()
		<-done
	})
	return h
}
