package picker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/schedule"
)

// chooser ranks clusters in the pool's order, and records calls.
type chooser struct {
	clusters map[objectid.Target]*Clusters
	charged  []string // first cluster of each pick with charged
	notes    []string
}

func (c *chooser) SetClusters(pool objectid.Target, to *Clusters) {
	if c.clusters[pool] = to; to == nil {
		delete(c.clusters, pool)
	}
}

func (c *chooser) Choose(pool objectid.Target, p ClusterPrompt, charged bool, out []ClusterCost) ([]ClusterCost,
	Charge) {
	if c.clusters[pool] == nil {
		return out, nil
	}
	for i, m := range c.clusters[pool].List {
		out = append(out, ClusterCost{Cluster: m.Name, Hop: m.Hop, Cost: float64(i), Basis: "report", Cached: p.Tokens})
	}
	if i := slices.IndexFunc(out, func(c ClusterCost) bool { return c.Cluster == p.Stay }); i >= 0 {
		out[i].Session = true
		out[0], out[i] = out[i], out[0]
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
	c := &chooser{clusters: map[objectid.Target]*Clusters{}}
	p := runPicker(t, Config{Chooser: c})
	_, address := servePicker(t, p)
	setPools(t, p, Pool{ID: poolID("ns/chat@"), Clusters: clustersOf(2, "envoy://hops/spare")})
	conn := dialPicker(t, address)
	pick := func() (list, lease string) {
		stream, _ := call(t, conn, "x-penstock-pool", "ns/chat@")
		r := exchange(t, stream, headerMessage(nil, "x-request-id", "one"))
		list, retries, _ := answered(r)
		if retries != "" {
			t.Errorf("the pick sets %s retries, want none: the route has as many as there are hops", retries)
		}
		sender := ""
		for _, h := range r.GetRequestHeaders().GetResponse().GetHeaderMutation().GetSetHeaders() {
			if h.Header.Key == SenderHeader {
				sender = string(h.Header.RawValue)
			}
		}
		if sender != "here/process" {
			t.Errorf(`the pick has the sender %q, want "here/process"`, sender)
		}
		return list,
			r.GetDynamicMetadata().GetFields()["penstock"].GetStructValue().GetFields()["lease"].GetStringValue()
	}
	list, lease := pick()
	if list != "envoy://hops/c00,envoy://hops/c01,envoy://hops/spare" || lease == "" ||
		!slices.Equal(c.charged, []string{"c00"}) {
		t.Errorf("pick %s, lease %q, charged %v; want c00, c01 and spare, a lease, and c00 charged",
			list, lease, c.charged)
	}
	for _, e := range []accesslog.Entry{
		{Open: true},
		{Open: true, Served: "envoy://hops/c00"},
		{Open: true, Served: "envoy://hops/c00", Status: 200, Body: true, Sent: time.Second,
			FirstByte: 3 * time.Second},
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
	if found := p.Picks(Picks{Last: 1}); len(found) != 1 || found[0].Strategy != "LeastLoad" ||
		len(found[0].Compared) != 2 || found[0].Compared[1].Address != "c01" || found[0].Compared[0].Basis != "report" {
		t.Errorf("record: got %+v, want LeastLoad with c00 and c01, by reports", found)
	}
	if e := p.Explain("ns/chat@", nil); len(e.Clusters) != 2 || e.Strategy != "LeastLoad" || len(c.charged) != 2 {
		t.Errorf("explanation: got %+v and %d picks charged, want LeastLoad with 2 clusters, and 2", e, len(c.charged))
	}

	setPools(t, p, Pool{ID: poolID("ns/chat@"), Clusters: clustersOf(40)})
	if list, _ := pick(); strings.Count(list, ",") != maxEndpoints-1 {
		t.Errorf("of 40 clusters the pick names %s, want %d", list, maxEndpoints)
	}
	setPools(t, p, Pool{ID: poolID("ns/chat@"), Clusters: clustersOf(0)})
	stream, _ := call(t, conn, "x-penstock-pool", "ns/chat@")
	if _, _, status := answered(exchange(t, stream, headerMessage(nil))); status != 503 {
		t.Errorf("without a cluster the answer is %d, want 503", status)
	}
	if setPools(t, p); len(c.clusters) != 0 {
		t.Errorf("clusters of a removed pool are kept: %v, want none", c.clusters)
	}
}

// firstCluster picks for a request with headers, and returns the first cluster and the lease.
func firstCluster(t *testing.T, conn *grpc.ClientConn, headers ...string) (first, lease string) {
	t.Helper()
	stream, _ := call(t, conn, "x-penstock-pool", "ns/chat@")
	r := exchange(t, stream, headerMessage(nil, headers...))
	list, _, _ := answered(r)
	first, _, _ = strings.Cut(list, ",")
	return strings.TrimPrefix(first, "envoy://hops/"),
		r.GetDynamicMetadata().GetFields()["penstock"].GetStructValue().GetFields()["lease"].GetStringValue()
}

// A session stays at the cluster that served its last request, even if another cluster is cheaper.
// A spill target is no cluster of the import, so it gets no session.
func TestSession_StaysAtTheClusterOfItsImport(t *testing.T) {
	c := &chooser{clusters: map[objectid.Target]*Clusters{}}
	var published []Session
	p := runPicker(t,
		Config{Chooser: c, Sharing: shared{session: func(s Session) { published = append(published, s) }}})
	_, address := servePicker(t, p)
	withSessions := clustersOf(3, "envoy://hops/spare")
	withSessions.Sessions = true
	setPools(t, p, Pool{ID: poolID("ns/chat@"), Clusters: withSessions})
	conn := dialPicker(t, address)
	pick := func(headers ...string) (first, lease string) { return firstCluster(t, conn, headers...) }
	_, lease := pick("x-session-id", "one")
	served := func(by string) {
		p.Log(accesslog.Entry{Lease: lease, Open: true, Served: by, Status: 200, Body: true})
		p.Log(accesslog.Entry{Lease: lease, Served: by, Status: 200, Body: true})
	}
	served("envoy://hops/c01") // c00 has declined
	for _, headers := range [][]string{{"x-session-id", "one"}, {"cookie", "a=b; session-id=one"}} {
		if first, _ := pick(headers...); first != "c01" {
			t.Errorf(`the session by %s moved from c01 to %s, want "c01"`, headers[0], first)
		}
	}
	if e := p.Explain("ns/chat@", map[string]string{"x-session-id": "one"}); len(e.Clusters) != 3 ||
		e.Clusters[0].Cluster != "c01" || !e.Clusters[0].Session {
		t.Errorf("explanation: got %+v, want 3 clusters, c01 first by session", e.Clusters)
	}
	if found := p.Picks(Picks{Last: 1}); len(found) != 1 || !found[0].Compared[0].Session ||
		found[0].Compared[1].Session {
		t.Errorf("record: got %+v, want the first cluster alone by session", found)
	}
	for _, headers := range [][]string{{"x-session-id", "two"}, {"x-session-id", "c01"},
		{"x-session-id", "envoy://hops/c02"}, {"cookie", "session-id=c02"}, nil} {
		if first, _ := pick(headers...); first != "c00" {
			t.Errorf(`a request with %q goes to %s, want "c00"`, headers, first)
		}
	}
	_, lease = pick("x-session-id", "three")
	served("envoy://hops/spare")
	if first, _ := pick("x-session-id", "three"); first != "c00" {
		t.Errorf(`after a spilled request the session is at %s, want "c00"`, first)
	}
	if len(published) < 2 || published[0].Cluster != "c00" || published[1].Cluster != "c01" ||
		published[0].ID != published[1].ID {
		t.Errorf("published: got %+v, want one session at c00 and then at c01", published)
	}

	// Sessions that a peer reports for clusters outside the import are ignored.
	id := schedule.SessionID([]byte("four"))
	p.LearnSession(Session{Pool: poolID("ns/chat@"), ID: id, Cluster: "elsewhere"})
	p.LearnSession(Session{Pool: poolID("ns/chat@"), ID: id, Cluster: "c02", Age: DefaultSessionTTL.Milliseconds() + 1})
	if first, _ := pick("x-session-id", "four"); first != "c00" {
		t.Errorf("a session of no cluster is at %s, want c00", first)
	}
	id = schedule.SessionID([]byte("five"))
	p.LearnSession(Session{Pool: poolID("ns/chat@"), ID: id, Cluster: "c02"})
	if first, _ := pick("x-session-id", "five"); first != "c02" {
		t.Errorf(`a session of another process is at %s, want "c02"`, first)
	}

	// A cluster that leaves the import loses its sessions; other clusters keep theirs.
	left := clustersOf(2)
	left.Sessions = true
	setPools(t, p, Pool{ID: poolID("ns/chat@"), Clusters: left})
	if first, _ := pick("x-session-id", "five"); first != "c00" {
		t.Errorf(`a session goes to %s, which has left, want "c00"`, first)
	}
	if first, _ := pick("x-session-id", "one"); first != "c01" {
		t.Errorf(`a session moved to %s because another cluster has left, want "c01"`, first)
	}
	setPools(t, p, Pool{ID: poolID("ns/chat@"), Clusters: clustersOf(2)})
	if first, _ := pick("x-session-id", "one"); first != "c00" {
		t.Errorf(`without affinity a session is kept at %s, want "c00"`, first)
	}
}

// A session's token leads only to a cluster of its import that accepts requests. It expires with
// the session, and hides the cluster's name.
func TestSession_TokenNamesNoOtherCluster(t *testing.T) {
	newPool := func(name string, clusters int) *pool {
		list := clustersOf(clusters)
		list.Sessions = true
		return &pool{Pool: Pool{ID: poolID(name), Clusters: list, SessionTTL: DefaultSessionTTL}, Name: name}
	}
	now := time.Unix(1_700_000_000, 0)
	chat := newPool("ns/chat@", 2)
	token := chat.stayToken("envoy://hops/c01", "behind", now).Value
	if strings.Contains(token, "c01") || !strings.HasSuffix(token, ".behind") {
		t.Errorf("token %s, want the name c01 hidden, and the suffix .behind", token)
	}
	if got := chat.stayToken("envoy://hops/spare", "behind", now); got.Name != "" {
		t.Errorf("a request that has been spilled gets the token %v, want none", got)
	}
	if got := chat.stayToken("envoy://hops/c01", strings.Repeat("a", maxTokenBehind+1), now); got.Name != "" {
		t.Error("a token of any length is carried along")
	}
	for _, c := range []struct {
		what  string
		token string
		at    *pool
		now   time.Time
		want  string
	}{
		{"a token", token, chat, now, "c01"},
		{"one without another behind it", chat.stayToken("envoy://hops/c01", "", now).Value, chat, now, "c01"},
		{"one that has expired", token, chat, now.Add(DefaultSessionTTL + time.Second), ""},
		{"one from the future", token, chat, now.Add(-DefaultSessionTTL - time.Second), ""},
		{"one of another import", token, newPool("ns/other@", 2), now, ""},
		{"one of a cluster that has left", token, newPool("ns/chat@", 1), now, ""},
		{"a name", "c01.", chat, now, ""},
		{"a name in base64", "YzAx.", chat, now, ""},
		{"an endpoint's token", sessionToken("10.0.0.1:80", now), chat, now, ""},
		{"no text", "", chat, now, ""},
		{"a long text", strings.Repeat("A", 1<<20) + ".", chat, now, ""},
	} {
		if got := c.at.readStayToken([]byte(c.token), c.now); got != c.want {
			t.Errorf("%s leads to %q, want %q", c.what, got, c.want)
		}
	}
}
