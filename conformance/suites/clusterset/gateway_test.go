package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/structpb"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const (
	ignoresWeights defect = "gives all backends the same share"
	wrongPicker    defect = "asks the picker of an import's first cluster for all of them"
	ignoresPick    defect = "sends to the same server whatever the picker names"
	headersAlone   defect = "does not send bodies to pickers"
	silentAfter    defect = "does not report which endpoint has served"
	failsOpen      defect = "takes a rejection for no pick"
	remembersPods  defect = "reads an import once"
	buffers        defect = "buffers responses"
	staysParent    defect = "stays a parent of an import without a route"
	ownsImport     defect = "writes the whole list of controllers"
	opensMissing   defect = "answers 404 for an import that does not exist"
)

// A gateway without a defect passes. A defect fails exactly the tests in its list.
func TestSuite_BrokenGatewayFailsExactlyItsTests(t *testing.T) {
	for d, want := range map[defect][]string{
		none:           nil,
		ignoresWeights: {"WeightedImports"},
		wrongPicker:    {"PickersAreNotMixed", "PinnedCluster"},
		ignoresPick:    {"RequestFollowsPick"},
		headersAlone:   {"PickerSeesTheBody"},
		silentAfter:    {"ServedEndpoint"},
		failsOpen:      {"PickerRejects"},
		remembersPods:  {"ChangedImport", "EmptyImport"},
		buffers:        {"StreamedResponse"},
		staysParent:    {"GatewayIsAParent"},
		ownsImport:     {"GatewayIsAParent"},
		opensMissing:   {"MissingImport"},
	} {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			g := &standIn{cluster: fakeCluster("here"), defect: d, port: l.Addr().(*net.TCPAddr).Port,
				once: map[string][]map[string]any{}}
			server := &http.Server{Handler: g}
			go func() { _ = server.Serve(l) }()
			t.Cleanup(func() { _ = server.Close() })
			go g.run(t.Context())
			s, err := New(Config{
				Clusters: []Cluster{g.cluster}, Profiles: []Profile{Gateway}, Shape: Seed, GatewayClass: "stand-in",
				GatewayPort: g.port,
				Addresses:   loopback(t), Timeout: 8 * time.Second,
			})
			if err != nil {
				t.Fatal(err)
			}
			compare(t, s.Run(t.Context()), want)
		})
	}
}

func loopback(t *testing.T) []netip.Addr {
	t.Helper()
	out := []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	if l, err := net.Listen("tcp", "127.0.0.2:0"); err == nil {
		_ = l.Close()
		out = append(out, netip.MustParseAddr("127.0.0.2"))
	}
	return out
}

type standIn struct {
	cluster Cluster
	defect  defect
	port    int

	mu   sync.Mutex
	turn int
	once map[string][]map[string]any // by import; its entries at the first read
}

const gatewayController = "gateway.example/controller"

func (g *standIn) run(ctx context.Context) {
	for ctx.Err() == nil {
		g.cluster.sweep(ctx)
		for _, gw := range g.cluster.all(ctx, gateways) {
			g.cluster.status(ctx, gateways, &gw, map[string]any{
				"addresses":  []any{map[string]any{"value": "127.0.0.1"}},
				"conditions": []any{map[string]any{"type": "Programmed", "status": "True"}},
			})
		}
		named := map[string]bool{}
		for _, route := range g.cluster.all(ctx, routes) {
			resolved := map[string]any{"type": "ResolvedRefs", "status": "True"}
			for _, ref := range refs(&route) {
				named[route.GetNamespace()+"/"+ref.name] = true
				if _, _, ok := g.read(ctx, route.GetNamespace(), ref.name); !ok {
					resolved["status"], resolved["reason"] = "False", "BackendNotFound"
				}
			}
			g.cluster.status(ctx, routes, &route, map[string]any{
				"parents": []any{map[string]any{"conditions": []any{resolved}}},
			})
		}
		for _, u := range g.cluster.all(ctx, imports) {
			g.attach(ctx, &u, named[u.GetNamespace()+"/"+u.GetName()])
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (g *standIn) attach(ctx context.Context, u *unstructured.Unstructured, named bool) {
	controllers, attached := []any{}, false
	for _, c := range list(u.Object, "status", "controllers") {
		if c["name"] == gatewayController {
			attached, named = true, named || g.defect == staysParent
		} else if c["name"] != gatewayController && g.defect != ownsImport {
			controllers = append(controllers, c)
		}
	}
	if attached == named {
		return
	}
	if named {
		controllers = append(controllers, map[string]any{
			"name": gatewayController, "parents": []any{map[string]any{"parentRef": map[string]any{"name": "gw"}}},
		})
	}
	g.cluster.status(ctx, imports, u, map[string]any{"controllers": controllers})
}

type backendRef struct {
	name   string
	weight int
}

func refs(route *unstructured.Unstructured) (out []backendRef) {
	for _, rule := range list(route.Object, "spec", "rules") {
		for _, b := range list(rule, "backendRefs") {
			ref := backendRef{name: fmt.Sprint(b["name"]), weight: 1}
			if n, ok := b["weight"].(int64); ok {
				ref.weight = int(n)
			}
			out = append(out, ref)
		}
	}
	return out
}

// read returns the entries of an import, or its entry for one cluster if name is IMPORT-CLUSTER.
// all are the import's entries. ok is false if there is no such import.
func (g *standIn) read(ctx context.Context, namespace, name string) (entries, all []map[string]any, ok bool) {
	for _, u := range g.cluster.all(ctx, imports) {
		if u.GetNamespace() != namespace {
			continue
		}
		all := list(u.Object, "status", "clusters")
		if u.GetName() == name {
			return all, all, true
		}
		for _, e := range all {
			if name == u.GetName()+"-"+fmt.Sprint(e["name"]) {
				return []map[string]any{e}, all, true
			}
		}
	}
	return nil, nil, false
}

// ServeHTTP sends a request to the target of the only route.
func (g *standIn) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	found := slices.DeleteFunc(g.cluster.all(req.Context(), routes),
		func(u unstructured.Unstructured) bool { return !g.cluster.has(req.Context(), u.GetNamespace()) })
	if err != nil || len(found) == 0 {
		http.Error(w, "no route", http.StatusNotFound)
		return
	}
	namespace, ref := found[len(found)-1].GetNamespace(), g.draw(refs(&found[len(found)-1]))
	entries, all, ok := g.read(req.Context(), namespace, ref.name)
	switch {
	case !ok && g.defect == opensMissing:
		http.Error(w, "no import", http.StatusNotFound)
		return
	case !ok:
		http.Error(w, "no import", http.StatusInternalServerError)
		return
	}
	g.mu.Lock()
	g.turn++
	turn := g.turn
	if known, ok := g.once[namespace+"/"+ref.name]; g.defect == remembersPods && ok {
		entries = known
	}
	g.once[namespace+"/"+ref.name] = entries
	g.mu.Unlock()
	if len(entries) == 0 {
		http.Error(w, "no cluster", http.StatusServiceUnavailable)
		return
	}
	entry := entries[turn%len(entries)]
	if g.defect == wrongPicker {
		entry = all[0]
	}
	if parents := list(entry, "parents"); len(parents) > 0 {
		g.send(w, req, body, address(parents[0]))
		return
	}
	epp, _, _ := unstructured.NestedMap(entry, "endpointPicker")
	at, status, served := g.ask(req, body, address(epp))
	if status != 0 && g.defect != failsOpen {
		w.WriteHeader(status)
		return
	}
	if at == "" || g.defect == ignoresPick {
		at = net.JoinHostPort("127.0.0.1", fmt.Sprint(entry["targetPortNumber"]))
	}
	g.send(w, req, body, at)
	served(at)
}

func (g *standIn) draw(from []backendRef) backendRef {
	sum := 0
	for i := range from {
		if g.defect == ignoresWeights {
			from[i].weight = 1
		}
		sum += from[i].weight
	}
	n := rand.IntN(max(sum, 1))
	for _, ref := range from {
		if n -= ref.weight; n < 0 {
			return ref
		}
	}
	return from[0]
}

func address(object map[string]any) string {
	s := list(object, "service")[0]
	addresses, _, _ := unstructured.NestedStringSlice(s, "addresses")
	return net.JoinHostPort(addresses[0], fmt.Sprint(list(s, "ports")[0]["number"]))
}

func (g *standIn) send(w http.ResponseWriter, req *http.Request, body []byte, at string) {
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: at})
	proxy.FlushInterval = -1
	if g.defect == buffers {
		proxy.FlushInterval = 0
		proxy.ModifyResponse = func(resp *http.Response) error {
			raw, err := io.ReadAll(resp.Body)
			resp.Body = io.NopCloser(bytes.NewReader(raw))
			return err
		}
	}
	out := req.Clone(req.Context())
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	proxy.ServeHTTP(w, out)
}

// ask calls a picker. It returns the endpoint, or the status of an immediate response, and a
// function that reports the endpoint that served.
func (g *standIn) ask(req *http.Request, body []byte, picker string) (endpoint string, status int,
	served func(string)) {
	none := func(string) {}
	conn, err := grpc.NewClient(picker,
		grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})))
	if err != nil {
		return "", 0, none
	}
	call, err := extprocv3.NewExternalProcessorClient(conn).Process(context.WithoutCancel(req.Context()))
	if err != nil {
		return "", 0, none
	}
	headers := []*corev3.HeaderValue{{Key: ":path", RawValue: []byte(req.URL.Path)},
		{Key: idHeader, RawValue: []byte(req.Header.Get(idHeader))}}
	last := g.defect == headersAlone
	_ = call.Send(&extprocv3.ProcessingRequest{Request: &extprocv3.ProcessingRequest_RequestHeaders{
		RequestHeaders: &extprocv3.HttpHeaders{Headers: &corev3.HeaderMap{Headers: headers}, EndOfStream: last}}})
	if !last {
		half := len(body) / 2
		for i, part := range [][]byte{body[:half], body[half:]} {
			_ = call.Send(&extprocv3.ProcessingRequest{
				Request: &extprocv3.ProcessingRequest_RequestBody{
					RequestBody: &extprocv3.HttpBody{Body: part, EndOfStream: i == 1},
				},
			})
		}
	}
	resp, err := call.Recv()
	if err != nil {
		_ = conn.Close()
		return "", 0, none
	}
	if i := resp.GetImmediateResponse(); i != nil {
		_ = conn.Close()
		return "", int(i.Status.Code), none
	}
	endpoint, _, _ = strings.Cut(
		resp.DynamicMetadata.Fields[endpointMetadata].GetStructValue().Fields[endpointKey].GetStringValue(), ",")
	return endpoint, 0, func(at string) {
		defer conn.Close()
		md := &structpb.Struct{Fields: map[string]*structpb.Value{servedKey: structpb.NewStringValue(at)}}
		m := &extprocv3.ProcessingRequest{
			Request:         &extprocv3.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extprocv3.HttpHeaders{}},
			MetadataContext: &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{endpointMetadata: md}},
		}
		if g.defect == silentAfter || call.Send(m) != nil {
			return
		}
		for { // the picker first sends the body back
			resp, err := call.Recv()
			if err != nil || resp.GetResponseHeaders() != nil {
				return
			}
		}
	}
}
