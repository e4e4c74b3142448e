package xdstest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/penstock-project/penstock/xds/bootstrap"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/xdstest"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
)

type subject interface {
	// names returns the names of a type, sorted.
	names(resource.Type) []string
	// serves returns the port of the backend that answers; 0: none.
	serves(port uint32) uint32
	reconnect(address string)
}

var subjects = []struct {
	name  string
	start func(t *testing.T, control *xdstest.Control) subject
}{
	{"fake", func(t *testing.T, c *xdstest.Control) subject {
		return fakeSubject{xdstest.StartFake(t, xdstest.FakeConfig{Address: c.Address})}
	}},
	{"fake of the state of the world", func(t *testing.T, c *xdstest.Control) subject {
		return fakeSubject{xdstest.StartFake(t, xdstest.FakeConfig{Address: c.Address, StateOfTheWorld: true})}
	}},
	{"envoy", func(t *testing.T, c *xdstest.Control) subject { return startEnvoy(t, c, "DELTA_GRPC") }},
	{"envoy of the state of the world", func(t *testing.T, c *xdstest.Control) subject {
		return startEnvoy(t, c, "GRPC")
	}},
}

type fakeSubject struct{ *xdstest.Fake }

func (f fakeSubject) names(t resource.Type) []string { return f.Names(t) }
func (f fakeSubject) reconnect(address string)       { f.Reconnect(address) }

func (f fakeSubject) serves(port uint32) uint32 {
	if ports := f.Backends(port); len(ports) > 0 {
		return ports[0]
	}
	return 0
}

type envoySubject struct {
	*envoytest.Envoy
	t *testing.T
}

func startEnvoy(t *testing.T, c *xdstest.Control, variant string) subject {
	t.Helper()
	config := bootstrap.Config{Gateway: xdstest.Gateway, ADS: []string{c.Address}, Concurrency: 1,
		// Envoy keeps a removed chain's routes, and the control plane their clusters, until the
		// chain has drained.
		DrainTime: time.Second}
	file, err := bootstrap.YAML(config)
	if err != nil {
		t.Fatal(err)
	}
	file = bytes.Replace(file, []byte("api_type: DELTA_GRPC"), []byte("api_type: "+variant), 1)
	return envoySubject{envoytest.Start(t, envoytest.Config{Bootstrap: file, Args: config.Args()}), t}
}

// Envoy reconnects by itself to the same address.
func (e envoySubject) reconnect(string) {}

func (e envoySubject) serves(port uint32) uint32 {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/", port))
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return 0
	}
	n, _ := strconv.ParseUint(string(body), 10, 32)
	return uint32(n)
}

func (e envoySubject) names(t resource.Type) []string {
	e.t.Helper()
	type named struct {
		Name        string `json:"name"`
		ClusterName string `json:"cluster_name"`
	}
	var dump struct {
		Configs []struct {
			Clusters []struct {
				Cluster named `json:"cluster"`
			} `json:"dynamic_active_clusters"`
			Listeners []struct {
				Name   string          `json:"name"`
				Active json.RawMessage `json:"active_state"`
			} `json:"dynamic_listeners"`
			Routes []struct {
				Config named `json:"route_config"`
			} `json:"dynamic_route_configs"`
			Endpoints []struct {
				Config named `json:"endpoint_config"`
			} `json:"dynamic_endpoint_configs"`
		} `json:"configs"`
	}
	if err := json.Unmarshal(e.ConfigDump(), &dump); err != nil {
		e.t.Fatal(err)
	}
	var out []string
	for _, c := range dump.Configs {
		switch t {
		case resource.Cluster:
			for _, x := range c.Clusters {
				out = append(out, x.Cluster.Name)
			}
		case resource.Listener:
			for _, x := range c.Listeners {
				if x.Active != nil {
					out = append(out, x.Name)
				}
			}
		case resource.RouteConfiguration:
			for _, x := range c.Routes {
				out = append(out, x.Config.Name)
			}
		case resource.Endpoints:
			for _, x := range c.Endpoints {
				out = append(out, x.Config.ClusterName)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func backend(t *testing.T) uint32 {
	t.Helper()
	var port uint32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, port) }))
	t.Cleanup(s.Close)
	port = uint32(s.Listener.Addr().(*net.TCPAddr).Port)
	return port
}
