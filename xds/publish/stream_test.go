package publish_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/publish"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/xdstest"
)

// script is a stream whose proxy answers as the test decides. now is its clock.
type script struct {
	*testing.T
	cache   *cache.Cache
	stream  *publish.Stream
	now     time.Time
	pending []*publish.Response
}

// begin starts a stream whose proxy has ACKed a cluster with endpoints, a listener and its routes.
func begin(t *testing.T, c publish.Config) *script {
	s := &script{T: t, cache: cache.New(cache.Config{}), now: time.Unix(1000, 0)}
	s.commit([]*resource.Resource{
		xdstest.Cluster(t, "a", 0), xdstest.Endpoints(t, "a", 1), xdstest.Listener(t, "web", 80, "routes"),
		xdstest.Routes(t, "routes", "a"),
	})
	s.stream = publish.New(s.cache.Open(xdstest.Gateway, ""), c)
	t.Cleanup(s.stream.Close)
	s.ask(publish.Request{Type: resource.Cluster})
	s.ask(publish.Request{Type: resource.Endpoints, Subscribe: slices.Values([]string{"a"})})
	s.ackAll()
	s.ask(publish.Request{Type: resource.Listener})
	s.ask(publish.Request{Type: resource.RouteConfiguration, Subscribe: slices.Values([]string{"routes"})})
	s.ackAll()
	s.expect()
	return s
}

func (s *script) commit(upserts []*resource.Resource, removes ...resource.Ref) {
	s.cache.Commit(cache.Batch{Gateway: xdstest.Gateway, Upserts: upserts, Removes: removes})
}

func (s *script) ask(r publish.Request) {
	s.stream.Handle(r, s.now)
	s.pending = append(s.pending, s.stream.Flush(s.now)...)
}

// expect compares the sent responses with want, such as "cluster +a,+b -c".
func (s *script) expect(want ...string) {
	s.Helper()
	s.pending = append(s.pending, s.stream.Flush(s.now)...)
	var got []string
	for _, r := range s.pending {
		got = append(got, describe(r))
	}
	if !slices.Equal(got, want) {
		s.Fatalf("sent %q, want %q", got, want)
	}
}

func describe(r *publish.Response) string {
	var parts []string
	for _, e := range r.Upserts {
		parts = append(parts, "+"+e.Name)
	}
	for _, n := range r.Removed {
		parts = append(parts, "-"+n)
	}
	return r.Type.String() + " " + strings.Join(parts, ",")
}

func (s *script) ack(t resource.Type) { s.answer(t, "") }

func (s *script) nack(t resource.Type, message string) { s.answer(t, message) }

func (s *script) answer(t resource.Type, message string) {
	s.Helper()
	var rest, mine []*publish.Response
	for _, r := range s.pending {
		if r.Type == t {
			mine = append(mine, r)
		} else {
			rest = append(rest, r)
		}
	}
	if len(mine) == 0 {
		s.Fatalf("no response of type %s to answer", t)
	}
	s.pending = rest
	for _, r := range mine {
		s.ask(publish.Request{Type: t, Nonce: r.Nonce, Error: message})
	}
}

func (s *script) ackAll() {
	for len(s.pending) > 0 {
		s.ack(s.pending[0].Type)
	}
}

func (s *script) advance(d time.Duration) { s.now = s.now.Add(d) }

func TestMakeBeforeBreak_RoutesWaitForNewClusters(t *testing.T) {
	s := begin(t, publish.Config{})
	s.commit([]*resource.Resource{xdstest.Cluster(t, "b", 0), xdstest.Endpoints(t, "b", 2),
		xdstest.Routes(t, "routes", "b")},
		resource.Ref{Type: resource.Cluster, Name: "a"})
	s.expect("cluster +b")
	s.ask(publish.Request{Type: resource.Endpoints, Subscribe: slices.Values([]string{"b"})})
	s.expect("cluster +b", "endpoints +b")
	s.ack(resource.Endpoints)
	s.advance(time.Hour)
	s.expect("cluster +b")
	s.ack(resource.Cluster)
	s.expect("route +routes")
	s.ack(resource.RouteConfiguration)
	s.expect("cluster -a")
}

// The proxy gets the routes, because it subscribes again before they arrive.
func TestMakeBeforeBreak_RoutesInFlightToANewSubscriptionKeepTheirClusters(t *testing.T) {
	s := begin(t, publish.Config{})
	s.commit([]*resource.Resource{xdstest.Routes(t, "routes", "a"), xdstest.RoutesOf(t, "routes", nil, "a")})
	s.expect("route +routes")
	inFlight := s.pending
	s.pending = nil
	s.commit([]*resource.Resource{xdstest.Cluster(t, "b", 0), xdstest.Endpoints(t, "b", 2),
		xdstest.Routes(t, "routes", "b")})
	s.expect("cluster +b")
	s.ask(publish.Request{Type: resource.RouteConfiguration, Unsubscribe: slices.Values([]string{"routes"})})
	s.ask(publish.Request{Type: resource.RouteConfiguration, Subscribe: slices.Values([]string{"routes"})})
	s.ask(publish.Request{Type: resource.RouteConfiguration, Nonce: inFlight[0].Nonce})
	s.commit(nil, resource.Ref{Type: resource.Cluster, Name: "a"})
	s.expect("cluster +b")
	s.ask(publish.Request{Type: resource.Endpoints, Subscribe: slices.Values([]string{"b"})})
	s.ack(resource.Endpoints)
	s.ack(resource.Cluster)
	s.expect("route +routes")
	s.ack(resource.RouteConfiguration)
	s.expect("cluster -a")
}

func TestWarming_SlowClusterDelaysOnlyItself(t *testing.T) {
	s := begin(t, publish.Config{Watchdog: time.Second})
	s.commit([]*resource.Resource{xdstest.Cluster(t, "a", 1), xdstest.Cluster(t, "b", 0),
		xdstest.RoutesOf(t, "routes", nil, "a")})
	s.expect("cluster +a,+b", "endpoints +a")
	s.pending = nil // the proxy does not answer
	if next := s.stream.NextFlush(); !next.Equal(s.now.Add(time.Second)) {
		t.Errorf("next flush at %v, want %v", next, s.now.Add(time.Second))
	}
	s.commit([]*resource.Resource{xdstest.Endpoints(t, "a", 9)})
	s.expect("endpoints +a")
	s.pending = nil
	s.advance(time.Second)
	s.expect("route +routes")
	s.commit([]*resource.Resource{xdstest.Cluster(t, "c", 0)})
	s.expect("route +routes", "cluster +c")
}

func TestDeltaADS_ChangesCollapseWhileOneIsInFlight(t *testing.T) {
	s := begin(t, publish.Config{})
	s.commit([]*resource.Resource{xdstest.Cluster(t, "b", 0)})
	s.expect("cluster +b")
	for i := range 10 {
		s.commit([]*resource.Resource{xdstest.Cluster(t, "c", i), xdstest.Cluster(t, "b", i)})
	}
	s.expect("cluster +b")
	s.ack(resource.Cluster)
	s.expect("cluster +b,+c")
}

func TestLinger_ClusterOutlivesItsRoutes(t *testing.T) {
	s := begin(t, publish.Config{Linger: time.Minute})
	s.commit([]*resource.Resource{
		xdstest.Cluster(t, "b", 0), xdstest.Endpoints(t, "b", 1), xdstest.Routes(t, "routes", "b"),
	}, resource.Ref{Type: resource.Cluster, Name: "a"}, resource.Ref{Type: resource.Endpoints, Name: "a"})
	s.expect("cluster +b")
	s.ask(publish.Request{Type: resource.Endpoints, Subscribe: slices.Values([]string{"b"})})
	s.ackAll()
	s.expect()
	if want := s.now.Add(time.Minute); !s.stream.NextFlush().Equal(want) {
		t.Errorf("next flush at %s, want %s", s.stream.NextFlush(), want)
	}
	s.now = s.now.Add(time.Minute)
	s.expect("cluster -a")
}

func TestLinger_CalledClusterStaysForDrainTime(t *testing.T) {
	s := begin(t,
		publish.Config{Linger: time.Second, Drain: time.Minute,
			Called: func(cluster string) bool { return cluster == "a" }})
	s.commit([]*resource.Resource{
		xdstest.Cluster(t, "b", 0), xdstest.Endpoints(t, "b", 1), xdstest.Routes(t, "routes", "b"),
	}, resource.Ref{Type: resource.Cluster, Name: "a"}, resource.Ref{Type: resource.Endpoints, Name: "a"})
	s.expect("cluster +b")
	s.ask(publish.Request{Type: resource.Endpoints, Subscribe: slices.Values([]string{"b"})})
	s.ackAll()
	s.now = s.now.Add(time.Minute - 1)
	s.expect()
	s.now = s.now.Add(1)
	s.expect("cluster -a")
}

func TestLinger_HoldsAfterResumptionAtAnotherReplica(t *testing.T) {
	s := begin(t, publish.Config{})
	next := publish.New(s.cache.Open(xdstest.Gateway, ""), publish.Config{Linger: time.Minute, Settle: time.Second})
	t.Cleanup(next.Close)
	initial := map[string]string{"gone": "1", "a": xdstest.Cluster(t, "a", 0).Version}
	next.Handle(publish.Request{Type: resource.Cluster, Initial: maps.All(initial)}, s.now)
	next.Handle(publish.Request{Type: resource.RouteConfiguration, Subscribe: slices.Values([]string{"routes"}),
		Initial: maps.All(map[string]string{"routes": xdstest.Routes(t, "routes", "a").Version})}, s.now)
	if sent := next.Flush(s.now.Add(time.Minute - 1)); len(sent) > 0 {
		t.Errorf("sent %s, want nothing before the linger timeout", describe(sent[0]))
	}
	if sent := next.Flush(s.now.Add(time.Minute)); len(sent) != 1 || describe(sent[0]) != "cluster -gone" {
		t.Errorf("sent %v, want cluster -gone", sent)
	}
}

func TestLagging_NothingIsRemovedWhileSourcesAreLost(t *testing.T) {
	lagging := true
	s := begin(t, publish.Config{Lagging: func() bool { return lagging }})
	s.commit([]*resource.Resource{
		xdstest.Cluster(t, "b", 0), xdstest.Endpoints(t, "b", 1), xdstest.Routes(t, "routes", "b"),
	}, resource.Ref{Type: resource.Cluster, Name: "a"}, resource.Ref{Type: resource.Endpoints, Name: "a"})
	s.expect("cluster +b")
	s.ask(publish.Request{Type: resource.Endpoints, Subscribe: slices.Values([]string{"b"})})
	s.ackAll()
	s.advance(time.Hour)
	s.expect()
	lagging = false
	s.now = s.stream.NextFlush()
	s.expect("cluster -a")
}

func TestDrain_ClustersOfRemovedChainStay(t *testing.T) {
	s := begin(t, publish.Config{Drain: time.Minute})
	s.commit(nil, resource.Ref{Type: resource.Listener, Name: "web"},
		resource.Ref{Type: resource.RouteConfiguration, Name: "routes"},
		resource.Ref{Type: resource.Cluster, Name: "a"}, resource.Ref{Type: resource.Endpoints, Name: "a"})
	s.expect("listener -web")
	s.ack(resource.Listener)
	s.ask(publish.Request{Type: resource.RouteConfiguration, Unsubscribe: slices.Values([]string{"routes"})})
	s.expect()
	s.advance(time.Minute - 1)
	s.expect()
	if next := s.stream.NextFlush(); !next.Equal(s.now.Add(1)) {
		t.Errorf("next flush at %v, want %v", next, s.now.Add(1))
	}
	s.advance(1)
	s.expect("cluster -a")
}

func TestNACK_WithoutNamesIsBisected(t *testing.T) {
	s := begin(t, publish.Config{})
	s.commit([]*resource.Resource{xdstest.Cluster(t, "b", 0), odd(t, "odd"), xdstest.Cluster(t, "c", 0)})
	s.expect("cluster +b,+c,+odd")
	s.nack(resource.Cluster, "no")
	s.expect("cluster +b", "cluster +c", "cluster +odd")
	for _, r := range slices.Clone(s.pending) {
		message := ""
		if r.Upserts[0].Name == "odd" {
			message = "no, not that one"
		}
		s.stream.Handle(publish.Request{Type: r.Type, Nonce: r.Nonce, Error: message}, s.now)
	}
	s.pending = nil
	s.expect()
	got := s.stream.Rejections()
	if len(got) != 1 || got[0].Ref.Name != "odd" || got[0].Message != "no, not that one" || len(got[0].Owners) != 1 {
		t.Fatalf("rejections: got %+v, want one of odd, with the last message and one owner", got)
	}
	s.commit([]*resource.Resource{xdstest.Cluster(t, "odd", 0)})
	s.expect("cluster +odd")
	s.ack(resource.Cluster)
	if got := s.stream.Rejections(); len(got) != 0 {
		t.Errorf("%+v, want none", got)
	}
}

func odd(t testing.TB, name string) *resource.Resource {
	return xdstest.Resource(t, resource.Cluster, name,
		&clusterv3.Cluster{Name: name, ConnectTimeout: durationpb.New(0)})
}

func TestNACK_RejectedRoutesKeepTheirClusters(t *testing.T) {
	s := begin(t, publish.Config{})
	s.commit([]*resource.Resource{xdstest.Cluster(t, "b", 0), xdstest.Routes(t, "routes", "b")},
		resource.Ref{Type: resource.Cluster, Name: "a"})
	s.expect("cluster +b")
	s.ack(resource.Cluster)
	s.expect("route +routes")
	s.nack(resource.RouteConfiguration, "missing ): a(b")
	s.expect("route +routes") // the rejected route answers 500
	s.nack(resource.RouteConfiguration, "missing ): a(b")
	s.advance(time.Hour)
	s.expect()
	s.commit([]*resource.Resource{xdstest.RoutesOf(t, "routes", nil, "b")})
	s.expect("route +routes")
	s.ack(resource.RouteConfiguration)
	s.expect("cluster -a")
}

// A proxy may apply a good cluster from a response that it rejects.
func TestNACK_ClusterThatReturnsToItsRejectedVersionIsRemovedInTheEnd(t *testing.T) {
	s := begin(t, publish.Config{})
	s.commit([]*resource.Resource{xdstest.Cluster(t, "b", 0)})
	s.expect("cluster +b")
	s.nack(resource.Cluster, "Error adding/updating cluster(s) b: no")
	s.expect()
	s.commit([]*resource.Resource{xdstest.Cluster(t, "b", 1), odd(t, "odd")})
	s.expect("cluster +b,+odd")
	s.commit([]*resource.Resource{xdstest.Cluster(t, "b", 0)})
	s.nack(resource.Cluster, "Error adding/updating cluster(s) odd: no")
	s.expect()
	s.commit(nil, resource.Ref{Type: resource.Cluster, Name: "b"})
	s.expect("cluster -b")
}

func TestDeltaADS_RevertedChangeIsNotSent(t *testing.T) {
	s := begin(t, publish.Config{})
	s.commit([]*resource.Resource{xdstest.Endpoints(t, "a", 2)})
	s.commit([]*resource.Resource{xdstest.Endpoints(t, "a", 1)})
	s.expect()
}

func TestResumption_RemovalsWaitForUnknownRoutes(t *testing.T) {
	s := begin(t, publish.Config{})
	stream := publish.New(s.cache.Open(xdstest.Gateway, ""), publish.Config{Settle: time.Second})
	defer stream.Close()
	stream.Handle(publish.Request{Type: resource.Cluster, Initial: maps.All(map[string]string{"gone": "1"})}, s.now)
	if got := stream.Flush(s.now); len(got) != 1 || describe(got[0]) != "cluster +a" {
		t.Fatalf("sent %v, want cluster +a", got)
	}
	stream.Handle(publish.Request{Type: resource.RouteConfiguration, Subscribe: slices.Values([]string{"routes"}),
		Initial: maps.All(map[string]string{"routes": "old"})}, s.now)
	got := stream.Flush(s.now.Add(time.Hour))
	if len(got) != 0 {
		t.Fatalf("sent %v, want nothing", describe(got[0]))
	}
	stream.Handle(publish.Request{Type: resource.Cluster, Nonce: "1"}, s.now)
	got = stream.Flush(s.now)
	if len(got) != 1 || describe(got[0]) != "route +routes" {
		t.Fatalf("sent %v, want route +routes", got)
	}
	stream.Handle(publish.Request{Type: resource.RouteConfiguration, Nonce: got[0].Nonce}, s.now)
	if got = stream.Flush(s.now); len(got) != 1 || describe(got[0]) != "cluster -gone" {
		t.Fatalf("sent %v, want cluster -gone", got)
	}
}

func TestNACK_ListenerOfBusyPortIsRetried(t *testing.T) {
	s := begin(t, publish.Config{})
	s.commit([]*resource.Resource{xdstest.Listener(t, "other", 81, "routes")})
	s.expect("listener +other")
	s.nack(resource.Listener,
		"Error adding/updating listener(s) other: cannot bind '127.0.0.1:81': Address already in use")
	s.expect()
	s.now = s.stream.NextFlush()
	s.expect("listener +other")
	s.ack(resource.Listener)
	s.expect()
	if got := s.stream.Rejections(); len(got) != 0 {
		t.Errorf("%+v, want none", got)
	}
}

func TestADS_UnknownNameIsAnsweredAtOnce(t *testing.T) {
	s := begin(t, publish.Config{})
	s.ask(publish.Request{Type: resource.Secret, Subscribe: slices.Values([]string{"nothing"})})
	s.ask(publish.Request{Type: resource.Endpoints, Subscribe: slices.Values([]string{"nothing"})})
	s.ask(publish.Request{Type: resource.RouteConfiguration, Subscribe: slices.Values([]string{"nothing"})})
	s.expect("secret -nothing", "endpoints +nothing", "route +nothing")
}

func FuzzStream_NoRequestBreaksIt(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9})
	f.Fuzz(func(t *testing.T, script []byte) {
		store := cache.New(cache.Config{})
		s := publish.New(store.Open(xdstest.Gateway, ""), publish.Config{StateOfTheWorld: len(script)%2 == 1})
		defer s.Close()
		now := time.Unix(0, 0)
		for i, b := range script {
			kind := resource.Types()[int(b)%5]
			name := fmt.Sprint("n", b%3)
			switch b / 32 {
			case 0:
				s.Handle(publish.Request{Type: kind, Subscribe: slices.Values([]string{name})}, now)
			case 1:
				s.Handle(publish.Request{Type: kind, Unsubscribe: slices.Values([]string{name})}, now)
			case 2:
				s.Handle(publish.Request{Type: kind, Nonce: fmt.Sprint(int(b) % (i + 1)), Error: name[:b%2]}, now)
			case 3:
				s.Handle(publish.Request{Type: kind, Initial: maps.All(map[string]string{name: "v"})}, now)
			case 4:
				s.HandleState(publish.StateRequest{Type: kind, Names: []string{name}}, now)
			case 5:
				r := resource.FromParts(kind, name,
					resource.NewPart(script[:i], []resource.Ref{{Type: resource.Cluster, Name: "n1"}}, nil))
				store.Commit(cache.Batch{Gateway: xdstest.Gateway, Upserts: []*resource.Resource{r}})
			case 6:
				store.Commit(cache.Batch{Gateway: xdstest.Gateway, Removes: []resource.Ref{{Type: kind, Name: name}}})
			default:
				now = now.Add(time.Second)
				s.Flush(now)
			}
		}
		s.Flush(now)
	})
}
