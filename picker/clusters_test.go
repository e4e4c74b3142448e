package picker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-project/penstock/picker/accesslog"
)

// chooser ranks clusters in their order, and notes what it is called with.
type chooser struct {
	of      map[string]*Clusters
	charged []string // the first of each pick that is charged
	notes   []string
}

func (c *chooser) SetClusters(pool string, to *Clusters) {
	if c.of[pool] = to; to == nil {
		delete(c.of, pool)
	}
}

func (c *chooser) Choose(pool string, p ClusterPrompt, charged bool, out []ClusterCost) ([]ClusterCost, Charge) {
	if c.of[pool] == nil {
		return out, nil
	}
	for i, m := range c.of[pool].List {
		out = append(out, ClusterCost{Cluster: m.Name, Hop: m.Hop, Cost: float64(i), Basis: "report", Cached: p.Tokens})
	}
	if !charged || len(out) == 0 {
		return out, nil
	}
	c.charged = append(c.charged, out[0].Cluster)
	return out, c
}

func (c *chooser) Sender() string { return "here/process" }
func (c *chooser) FirstByte(after time.Duration) {
	c.notes = append(c.notes, "first byte after "+after.String())
}
func (c *chooser) Declined() { c.notes = append(c.notes, "declined") }
func (c *chooser) End()      { c.notes = append(c.notes, "end") }

func clustersOf(n int, further ...string) *Clusters {
	out := &Clusters{Further: further}
	for i := range n {
		name := fmt.Sprintf("c%02d", i)
		out.List = append(out.List, Cluster{Name: name, Hop: "envoy://hops/" + name})
	}
	return out
}

func TestLeastLoad_PickNamesTheClustersAndChargesTheFirst(t *testing.T) {
	c := &chooser{of: map[string]*Clusters{}}
	p := runPicker(t, Config{Chooser: c})
	_, address := servePicker(t, p)
	setPools(t, p, Pool{Name: "ns/chat@", Clusters: clustersOf(2, "envoy://hops/spare")})
	conn := dialPicker(t, address)
	pick := func() (list, lease string) {
		stream, _ := call(t, conn, "x-penstock-pool", "ns/chat@")
		r := exchange(t, stream, headerMessage(nil, "x-request-id", "one"))
		list, retries, _ := answered(r)
		if retries != "" {
			t.Errorf("the pick sets %s retries: the route has as many as there are hops", retries)
		}
		sender := ""
		for _, h := range r.GetRequestHeaders().GetResponse().GetHeaderMutation().GetSetHeaders() {
			if h.Header.Key == SenderHeader {
				sender = string(h.Header.RawValue)
			}
		}
		if sender != "here/process" {
			t.Errorf("the pick has the sender %q", sender)
		}
		return list, r.GetDynamicMetadata().GetFields()["penstock"].GetStructValue().GetFields()["lease"].GetStringValue()
	}
	list, lease := pick()
	if list != "envoy://hops/c00,envoy://hops/c01,envoy://hops/spare" || lease == "" || !slices.Equal(c.charged, []string{"c00"}) {
		t.Errorf("pick %s, lease %q, charged %v", list, lease, c.charged)
	}
	for _, e := range []accesslog.Entry{
		{Open: true},
		{Open: true, Served: "envoy://hops/c00"},
		{Open: true, Served: "envoy://hops/c00", Status: 200, Body: true, Sent: time.Second, FirstByte: 3 * time.Second},
		{Served: "envoy://hops/c00", Status: 200, Body: true, Sent: time.Second, FirstByte: 3 * time.Second},
	} {
		e.Lease = lease
		p.Log(e)
	}
	if d := cmp.Diff([]string{"first byte after 2s", "first byte after 2s", "end"}, c.notes); d != "" {
		t.Errorf("of a request that the first cluster serves (-want +got):\n%s", d)
	}
	c.notes = nil
	_, lease = pick()
	p.Log(accesslog.Entry{Lease: lease, Served: "envoy://hops/c01", Status: 200, Body: true})
	if d := cmp.Diff([]string{"declined", "end"}, c.notes); d != "" {
		t.Errorf("of a request that the second cluster serves (-want +got):\n%s", d)
	}
	if found := p.Picks(Picks{Last: 1}); len(found) != 1 || found[0].Strategy != "LeastLoad" || len(found[0].Compared) != 2 || found[0].Compared[1].Address != "c01" || found[0].Compared[0].Basis != "report" {
		t.Errorf("record: %+v", found)
	}
	if e := p.Explain("ns/chat@", nil); len(e.Clusters) != 2 || e.Strategy != "LeastLoad" || len(c.charged) != 2 {
		t.Errorf("explanation: %+v, %d picks charged", e, len(c.charged))
	}

	setPools(t, p, Pool{Name: "ns/chat@", Clusters: clustersOf(40)})
	if list, _ := pick(); strings.Count(list, ",") != maxEndpoints-1 {
		t.Errorf("of 40 clusters the pick names %s", list)
	}
	setPools(t, p, Pool{Name: "ns/chat@", Clusters: clustersOf(0)})
	stream, _ := call(t, conn, "x-penstock-pool", "ns/chat@")
	if _, _, status := answered(exchange(t, stream, headerMessage(nil))); status != 503 {
		t.Errorf("without a cluster the answer is %d", status)
	}
	if setPools(t, p); len(c.of) != 0 {
		t.Errorf("clusters of a removed pool are kept: %v", c.of)
	}
}
