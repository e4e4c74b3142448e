package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
)

// upstreamEntry is an entry of InferencePoolImport's status.clusters with the upstream fields
// alone, as other controllers read it.
type upstreamEntry struct {
	Name             string `json:"name"`
	RoutingMode      string `json:"routingMode"`
	TargetPortNumber int32  `json:"targetPortNumber"`
	EndpointPicker   struct {
		Service []upstreamService `json:"service"`
	} `json:"endpointPicker"`
	Parents []struct {
		Service []upstreamService `json:"service"`
	} `json:"parents"`
}

type upstreamService struct {
	Addresses []string `json:"addresses"`
	Ports     []struct {
		Number int `json:"number"`
	} `json:"ports"`
}

// only returns the address and port in a list with exactly one of each.
func only(t *testing.T, list []upstreamService) (address string, port int) {
	t.Helper()
	if len(list) != 1 || len(list[0].Addresses) != 1 || len(list[0].Ports) != 1 {
		t.Fatalf("Services %+v, want one with one address and one port", list)
	}
	return list[0].Addresses[0], list[0].Ports[0].Number
}

func (s *site) imported(name, cluster string) (out upstreamEntry) {
	s.t.Helper()
	eventually(s.t, "an entry "+cluster+" of import "+name, func() error {
		text, err := penstock(s.t, "debug", "store", "show", "Offer", "default/"+name+"."+cluster, "-o", "yaml", "-f",
			s.dir, "--state", s.state)
		if err != nil {
			return err
		}
		var object struct{ Cluster upstreamEntry }
		if err := yaml.Unmarshal([]byte(strings.TrimPrefix(text, "---\n")), &object); err != nil {
			return err
		}
		out = object.Cluster
		return nil
	})
	return out
}

// offering starts cluster east: chat is exported with its own picker port, code is exported without
// one, and pool own has picker port own but no export.
func offering(t *testing.T, own int, chats ...string) (east, here *site) {
	t.Helper()
	dir := credentialsFor(t, filepath.Join(t.TempDir(), "credentials"))
	in := func(name string) string { return filepath.Join(dir, name) }
	files := chatFiles(freePort(t), chats...)
	files["pool.yaml"], files["set.yaml"] = exportedPoolNamed("chat"), clusterSetYAML("east")
	files["code.yaml"] = exportedPoolNamed("code") + "---\n" +
		serversYAML("code", serverNamed(t, "code-1"))
	files["own.yaml"] = poolYAML("own") + "---\n" + serversYAML("own", serverNamed(t, "own-1"))
	east = up(t, files, "--members-listen", "127.0.0.1:0", "--picker", fmt.Sprintf("127.0.0.1:%d", freePort(t)),
		"--picker-open", "--offer", "default/chat=0", "--offer", fmt.Sprintf("default/own=%d", own),
		"--drain-time", "1s", "--xds-cert", in("penstock.crt"), "--xds-key", in("penstock.key"), "--xds-client-ca",
		in("ca.crt"))
	here = up(t,
		map[string]string{"set.yaml": clusterSetYAML("here", east.show()),
			"gateway.yaml": gatewayYAML("gw", freePort(t)), "route.yaml": routeYAML("far", "/", toImport("chat"))},
		"--members-listen", "127.0.0.1:0")
	east.write("set.yaml", clusterSetYAML("east", here.show()))
	return east, here
}

// An Envoy that Penstock does not configure needs only upstream's fields: the picker's port
// identifies the pool.
func TestOffer_EnvoyOfOthersIsServedByTheImportsStatusAlone(t *testing.T) {
	t.Parallel()
	_, here := offering(t, freePort(t), serverNamed(t, "chat-1"),
		serverNamed(t, "chat-2"))
	entry := here.imported("chat", "east")
	if entry.RoutingMode != "EndpointMode" || entry.TargetPortNumber != 8000 {
		t.Errorf(`%+v, want RoutingMode "EndpointMode" and TargetPortNumber 8000`, entry)
	}
	_, picker := only(t, entry.EndpointPicker.Service)
	// The Envoy has no endpoints: it connects to the address that the picker returns.
	e := startBareEnvoy(t, bareEnvoy{Pickers: []int{picker}, Clusters: []string{"original-dst"}, TLS: true})
	for _, way := range e.ways() {
		by := map[string]int{}
		for range 10 {
			got, err := e.chat(way)
			if err != nil || got.status != http.StatusOK {
				t.Fatalf("%s: %d %q %s %v, want %d",
					way, got.status, got.header.Get("x-penstock-reason"), got.body, err, http.StatusOK)
			}
			by[got.header.Get("x-served-by")]++
		}
		if by["chat-1"]+by["chat-2"] != 10 {
			t.Errorf("%s: served by %v, want pods of chat alone", way, by)
		}
	}
	if got, err := chat(t.Context(), here.gateway()); err != nil || got.status != http.StatusOK ||
		!strings.HasPrefix(got.header.Get("x-served-by"), "chat-") {
		t.Errorf("a member: got %d %s %v, want 200 of chat", got.status, got.body, err)
	}
}

func (s *site) gateway() string {
	s.t.Helper()
	_, rest, ok := strings.Cut(s.out.String(), "Gateway default/gw serves at ")
	if !ok {
		s.t.Fatalf("no URL in:\n%s", s.out)
	}
	return strings.Fields(rest)[0]
}

// asked returns the endpoint that a picker selects. md has request metadata, as keys and values.
func asked(t *testing.T, conn *grpc.ClientConn, md ...string) (endpoint string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), md...), pollTimeout)
	defer cancel()
	stream, err := extprocv3.NewExternalProcessorClient(conn).Process(ctx)
	if err != nil {
		return "", err
	}
	headers := &corev3.HeaderMap{}
	for _, h := range [][2]string{{":method", "GET"}, {":path", "/v1/anything"}, {":authority", "llm.example"}} {
		headers.Headers = append(headers.Headers, &corev3.HeaderValue{Key: h[0], RawValue: []byte(h[1])})
	}
	_ = stream.Send(
		&extprocv3.ProcessingRequest{
			Request: &extprocv3.ProcessingRequest_RequestHeaders{
				RequestHeaders: &extprocv3.HttpHeaders{Headers: headers, EndOfStream: true},
			},
		})
	answer, err := stream.Recv()
	if err != nil {
		return "", err
	}
	for _, h := range answer.GetRequestHeaders().GetResponse().GetHeaderMutation().GetSetHeaders() {
		if h.GetHeader().GetKey() == "x-gateway-destination-endpoint" {
			return string(h.GetHeader().GetRawValue()), nil
		}
	}
	return "", fmt.Errorf("got %v, want an endpoint", answer)
}

// A client gets an endpoint of the port's pool, whatever metadata it sends. The client is denied
// once the pool is not exported.
func TestOffer_PortMeansThePoolAlone(t *testing.T) {
	t.Parallel()
	chats := []string{serverNamed(t, "chat-1"), serverNamed(t, "chat-2")}
	own := freePort(t)
	east, here := offering(t, own, chats...)
	dial := func(address string, port int) *grpc.ClientConn {
		t.Helper()
		conn, err := grpc.NewClient(fmt.Sprintf("%s:%d", address, port),
			grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	alone, shared := dial(only(t, here.imported("chat", "east").EndpointPicker.Service)),
		dial(only(t, here.imported("code", "east").EndpointPicker.Service))
	for _, md := range [][]string{
		nil,
		{"x-penstock-spill", "envoy://hops/hop.default.pool.own", "x-penstock-subset", "app=own", "x-penstock-last",
			"true"},
	} {
		for range 5 {
			if got, err := asked(t, alone, md...); err != nil || !slices.Contains(chats, got) {
				t.Errorf("with %v: %q %v, want one of %v", md, got, err, chats)
			}
		}
	}
	// A member's Gateway accepts a list of endpoints.
	if got, err := asked(t, alone, "x-penstock-pool", "default/chat"); err != nil ||
		len(got) != len(chats[0]+","+chats[1]) {
		t.Errorf("a member: got %q %v, want the list of both pods", got, err)
	}
	for what, md := range map[string][]string{"another pool": {"x-penstock-pool", "default/code"},
		"a pool that is not exported": {"x-penstock-pool", "default/own"},
		"an upload":                   {"x-penstock-upload", "1000000"}} {
		if got, err := asked(t, alone, md...); status.Code(err) != codes.PermissionDenied {
			t.Errorf("%s: got %q %v, want PermissionDenied", what, got, err)
		}
	}
	if got, err := asked(t, shared); err == nil {
		t.Errorf("at the port of several pools, without the name of one: got %q, want an error", got)
	}
	conditions := func(pool, want string) {
		t.Helper()
		eventually(t, pool+": "+want, func() error {
			if text := east.penstock("status", "-o", "json"); !strings.Contains(text, want) {
				return fmt.Errorf("got %s, want %s", text, want)
			}
			return nil
		})
	}
	conditions("chat", `"imported by 1 member"`)
	conditions("code",
		`imported by 1 member; only members can use it, because its picker serves several pools and they name it: for others, start penstock with --offer default/code=PORT`)
	if got, err := asked(t, dial("127.0.0.1", own)); status.Code(err) != codes.PermissionDenied {
		t.Errorf("offered, and not exported: got %q %v, want PermissionDenied", got, err)
	}
	east.write("pool.yaml", poolYAML("chat"))
	eventually(t, "a pool that is not exported any more is denied", func() error {
		if got, err := asked(t, alone); status.Code(err) != codes.PermissionDenied {
			return fmt.Errorf("got %q %v, want PermissionDenied", got, err)
		}
		return nil
	})
}

const parentEnvoy = `
static_resources:
  listeners:
  - name: edge
    address: {socket_address: {address: 127.0.0.1, port_value: %d}}
    filter_chains:
    - filters:
      - name: hcm
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: edge
          route_config: {virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: /}, route: {cluster: parent}}]}]}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
  clusters:
  - name: parent
    connect_timeout: 1s
    load_assignment: {cluster_name: parent, endpoints: [{lb_endpoints: [{endpoint: {address: {socket_address: {address: %s, port_value: %d}}}}]}]}
`

// With --offer, a pool in ParentMode has the Gateway's address as its parent. Otherwise the parent
// is the Gateway's peer listener, which only members can use.
func TestOffer_ParentOfOthersIsTheGatewaysOrdinaryAddress(t *testing.T) {
	t.Parallel()
	gateway, peer, own := freePort(t), freePort(t), freePort(t)
	parent := func(name string) string {
		return strings.Replace(exportedPoolNamed(name), exportAnnotation,
			exportAnnotation+", inference.networking.x-k8s.io/export-mode: ParentMode", 1)
	}
	files := chatFiles(gateway, serverNamed(t, "chat-1"))
	files["pool.yaml"], files["set.yaml"] = parent("chat"), withPeers(clusterSetYAML("east"), peer)
	files["code.yaml"] = parent("code") + "---\n" + serversYAML("code", serverNamed(t, "code-1")) +
		"---\n" + routeYAML("code", "/code", toPool("code"))
	files["own.yaml"] = poolYAML("own") + "---\n" + serversYAML("own", serverNamed(t, "own-1"))
	east := up(t, files, "--members-listen", "127.0.0.1:0", "--offer", "default/chat", "--offer",
		fmt.Sprintf("default/own=%d", own))
	here := up(t,
		map[string]string{"set.yaml": clusterSetYAML("here", east.show()),
			"gateway.yaml": gatewayYAML("gw", freePort(t)), "route.yaml": routeYAML("far", "/", toImport("chat"))},
		"--members-listen", "127.0.0.1:0")
	east.write("set.yaml", withPeers(clusterSetYAML("east", here.show()), peer))
	entry := here.imported("chat", "east")
	if entry.RoutingMode != "ParentMode" || len(entry.Parents) != 1 {
		t.Fatalf("got %+v, want ParentMode with one parent", entry)
	}
	address, at := only(t, entry.Parents[0].Service)
	if at != gateway {
		t.Errorf("the parent is at port %d, want the Gateway's %d", at, gateway)
	}
	if parents := here.imported("code", "east").Parents; len(parents) != 1 {
		t.Errorf("%+v, want 1 of them", parents)
	} else if _, port := only(t, parents[0].Service); port != peer {
		t.Errorf("a pool that is not offered is at port %d, want the peer listener's %d", port, peer)
	}
	port := freePort(t)
	envoytest.Start(t,
		envoytest.Config{Bootstrap: fmt.Appendf(nil, parentEnvoy, port, address, at),
			Args: []string{"--concurrency", "1", "--disable-hot-restart"}, LogLevel: "warning"}).WaitLive()
	for what, url := range map[string]string{"an HTTP client": fmt.Sprintf("http://%s:%d", address, at),
		"an Envoy": local(port), "a member": here.gateway()} {
		eventually(t, what, func() error {
			if got, err := chat(t.Context(), url); err != nil || got.status != http.StatusOK ||
				got.header.Get("x-served-by") != "chat-1" {
				return fmt.Errorf("got %d from %q: %s %v, want 200 from chat-1", got.status,
					got.header.Get("x-served-by"), got.body, err)
			}
			return nil
		})
	}
	conn, err := grpc.NewClient(fmt.Sprintf("127.0.0.1:%d", own),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if got, err := asked(t, conn); status.Code(err) != codes.PermissionDenied {
		t.Errorf("offered, and not exported: got %q %v, want PermissionDenied", got, err)
	}
	for _, want := range []string{`"imported by 1 member"`,
		"imported by 1 member; only members can use it, by the peer listener of its Gateways: for others, start " +
			"penstock with --offer default/code"} {
		eventually(t, want, func() error {
			if text := east.penstock("status", "-o", "json"); !strings.Contains(text, want) {
				return fmt.Errorf("got %s, want %s", text, want)
			}
			return nil
		})
	}
}

func TestOffer_FlagNamesWhatToWriteInstead(t *testing.T) {
	t.Parallel()
	dir := credentialsFor(t, filepath.Join(t.TempDir(), "credentials"))
	in := func(name string) string { return filepath.Join(dir, name) }
	for args, want := range map[string]string{
		"--offer chat=9010":           "write NAMESPACE/NAME=PORT",
		"--offer a/b=x":               "write a port from 0 to 65535",
		"--offer a/b=0 --offer a/b=0": "remove one of them",
		"--offer a/b=0 --xds-cert " + in("penstock.crt") + " --xds-key " + in("penstock.key") + " --xds-client-ca " +
			in("ca.crt"): "requires --picker-open",
	} {
		if out, err := penstock(t,
			append([]string{"up", "-f", t.TempDir(), "--state", t.TempDir()}, strings.Fields(args)...)...); err ==
			nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v %s; want %q", args, err, out, want)
		}
	}
}
