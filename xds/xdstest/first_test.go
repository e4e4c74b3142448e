package xdstest_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/penstock-project/penstock/xds/bootstrap"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/server"
	"github.com/penstock-project/penstock/xds/xdstest"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
)

func TestEnvoyServesWhatWasCommitted(t *testing.T) {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "served") }))
	defer backend.Close()
	control := xdstest.Serve(t, server.Config{})
	port := envoytest.FreePort(t)
	control.Commit([]*resource.Resource{
		xdstest.Cluster(t, "a", 0), xdstest.Endpoints(t, "a", uint32(backend.Listener.Addr().(*net.TCPAddr).Port)),
		xdstest.Listener(t, "web", port, "routes"), xdstest.Routes(t, "routes", "a"),
	})
	envoy := envoytest.StartGateway(t, bootstrap.Config{Gateway: xdstest.Gateway, ADS: []string{control.Address}})
	envoy.WaitLive()
	control.WaitAcked(resource.Ref{Type: resource.RouteConfiguration, Name: "routes"})
	resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", port))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); string(body) != "served" {
		t.Errorf("%s %q", resp.Status, body)
	}
}
