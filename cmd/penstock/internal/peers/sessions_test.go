package peers

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	extprocv3 "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/schedule"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func sessionPool() picker.Pool {
	pool := picker.Pool{ID: objectid.MustParseTarget("ns/pool"), Strategy: "session",
		Metrics: endpoint.Metrics{Off: true}}
	for i := range 3 {
		pool.Endpoints = append(pool.Endpoints, endpoint.Spec{
			Addr: netip.MustParseAddrPort(fmt.Sprintf("10.0.0.%d:80", i+1)),
		})
	}
	return pool
}

func sessionAt(p *picker.Picker, headers map[string]string) string {
	for _, v := range p.Explain("ns/pool", headers).Verdicts {
		if v.Session {
			return v.Address
		}
	}
	return ""
}

func TestSession_MovedSessionIsAtTheSameServerForAllProcesses(t *testing.T) {
	pickers, _, _ := startPools(t, 2, sessionPool())
	for _, headers := range []map[string]string{{"x-session-id": "user-1"}, {"cookie": "a=b; session-id=user-2"}} {
		// By its ID, the session begins at the server first. Then it moves to another server, as
		// after a retry.
		first := pickers[0].Explain("ns/pool", headers).Endpoints
		to := netip.MustParseAddrPort("10.0.0.1:80")
		if first == to.String() || len(first) > len(to.String()) && first[:len(to.String())] == to.String() {
			to = netip.MustParseAddrPort("10.0.0.2:80")
		}
		id := headers["x-session-id"]
		if id == "" {
			id = "user-2"
		}
		session := picker.Session{Pool: objectid.MustParseTarget("ns/pool"), ID: schedule.SessionID([]byte(id)), At: to}
		pickers[0].LearnSession(session)
		a := pickers[0].Pick(t.Context(), requestWith(t, headers))
		if a.Endpoints.String() != to.String() {
			t.Fatalf("%v: picked %s, want %s", headers, a.Endpoints, to)
		}
		poll.Until(t, "the other process has the session there",
			func() bool { return sessionAt(pickers[1], headers) == to.String() })
	}
	// Sessions of unknown pools and servers are ignored.
	for _, s := range []picker.Session{
		{Pool: objectid.MustParseTarget("ns/other"), ID: 9, At: netip.MustParseAddrPort("10.0.0.1:80")},
		{Pool: objectid.MustParseTarget("ns/pool"), ID: 9, At: netip.MustParseAddrPort("10.9.9.9:80")},
		{Pool: objectid.MustParseTarget("ns/pool"), ID: 9, At: netip.MustParseAddrPort("10.0.0.1:80"), Age: -1},
	} {
		pickers[0].LearnSession(s)
	}
	n := 0
	pickers[0].Sessions(func(s picker.Session) bool { n++; return true })
	if n != 2 {
		t.Errorf("%d sessions, want 2", n)
	}
}

func TestSession_ClusterOfAnImportIsTheSameForAllProcesses(t *testing.T) {
	pool := picker.Pool{ID: objectid.MustParseTarget("ns/chat@"),
		Clusters: &picker.Clusters{Sessions: true, List: []picker.Cluster{{Name: "east"}, {Name: "west"}}}}
	pickers, _, _ := startPools(t, 2, pool)
	headers := map[string]string{"x-session-id": "user-1"}
	id := schedule.SessionID([]byte("user-1"))
	// without this, the session begins at east
	pickers[0].LearnSession(picker.Session{Pool: objectid.MustParseTarget("ns/chat@"), ID: id, Cluster: "west"})
	r := requestWith(t, headers)
	r.Pool = "ns/chat@"
	if a := pickers[0].Pick(t.Context(), r); a.Endpoints.String() != "west,east" {
		t.Fatalf(`picked %s, want "west,east"`, a.Endpoints)
	}
	poll.Until(t, "the other process has the session there", func() bool {
		found := ""
		pickers[1].Sessions(func(s picker.Session) bool { found = s.Cluster; return true })
		return found == "west"
	})
	if e := pickers[1].Explain("ns/chat@", headers); e.Clusters[0].Cluster != "west" {
		t.Errorf(`the other process sends it to %s, want "west"`, e.Clusters[0].Cluster)
	}
}

type inOrder struct {
	mu       sync.Mutex
	clusters map[objectid.Target]*picker.Clusters
}

func (c *inOrder) SetClusters(pool objectid.Target, to *picker.Clusters) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clusters[pool] = to
}

func (c *inOrder) Choose(pool objectid.Target, p picker.ClusterPrompt, _ bool,
	out []picker.ClusterCost) ([]picker.ClusterCost, picker.Charge) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.clusters[pool].List {
		if cost := (picker.ClusterCost{Cluster: m.Name, Hop: m.Name}); m.Name == p.Stay {
			out = slices.Insert(out, 0, cost)
		} else {
			out = append(out, cost)
		}
	}
	return out, nil
}

func (c *inOrder) Sender() string { return "" }

func requestWith(t *testing.T, headers map[string]string) *extproc.Request {
	t.Helper()
	m := &extprocv3.HttpHeaders{Headers: &corev3.HeaderMap{}, EndOfStream: true}
	for name, value := range headers {
		m.Headers.Headers = append(m.Headers.Headers, &corev3.HeaderValue{Key: name, RawValue: []byte(value)})
	}
	raw, err := proto.Marshal(&extprocv3.ProcessingRequest{
		Request: &extprocv3.ProcessingRequest_RequestHeaders{RequestHeaders: m},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &extproc.Request{Pool: "ns/pool", Headers: &extproc.Message{}}
	if err := extproc.Codec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw)}, r.Headers); err != nil {
		t.Fatal(err)
	}
	return r
}
