package load

import (
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/multicluster/selection"
	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/dial"
	"github.com/penstock-project/penstock/picker/schedule"
)

// pageServer serves the metrics page of a picker to requests with a token.
type pageServer struct {
	*httptest.Server
	mu       sync.Mutex
	ready    int
	received []string // Authorization headers of all requests
	moved    string   // URL to which requests are redirected; "": none
}

func newPageServer(t *testing.T, start func(http.Handler) *httptest.Server) *pageServer {
	s := &pageServer{ready: 8}
	s.Server = start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.received = append(s.received, r.Header.Get("Authorization"))
		switch {
		case s.moved != "":
			http.Redirect(w, r, s.moved, http.StatusFound)
		case r.Header.Get("Authorization") != "Bearer s3cret":
			http.Error(w, r.Header.Get("Authorization")+" is not it", http.StatusUnauthorized)
		default:
			_, _ = fmt.Fprintf(w, "# HELP inference_pool_ready_pods x\ninference_pool_ready_pods{name=\"chat\"} %d\n",
				s.ready)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *pageServer) credentials() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.received, ",")
}

func (s *pageServer) page(tls *dial.TLS) Page {
	at := netip.MustParseAddrPort(s.Listener.Addr().String())
	return Page{Import: objectid.Pool{Namespace: "default", Name: "chat"}, Member: "east", Pool: "chat",
		Addresses: []netip.Addr{at.Addr()}, Port: at.Port(), TLS: tls, Authorization: "Bearer s3cret"}
}

// waitOfEast returns how long a request would wait in cluster east, in seconds.
func waitOfEast(t *testing.T, l *Loads) float64 {
	t.Helper()
	ranked, charge := l.Choose(whole, picker.ClusterPrompt{}, true, nil)
	if charge != nil {
		defer charge.End()
	}
	for _, c := range ranked {
		if c.Cluster == "east" {
			return c.Wait
		}
	}
	t.Fatal("east is not ranked")
	return 0
}

// loadEast begins long requests until one goes to east.
func loadEast(l *Loads) {
	for {
		ranked, charge := l.Choose(whole, picker.ClusterPrompt{Tokens: 8000}, true, nil) // a long request
		if ranked[0].Cluster == "east" {
			break
		}
		charge.End()
	}
}

// If a cluster does not report its load, its wait is estimated: this process's requests to the
// cluster, divided by the number of servers on the page of the cluster's picker. The page is read
// with the credential.
func TestSecretRef_PageOfAClustersPickerIsReadWithItsCredential(t *testing.T) {
	s := newPageServer(t, httptest.NewTLSServer)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	verify := func(ca []byte) *dial.TLS {
		return &dial.TLS{ServerName: "example.com", Verify: &dial.Verify{Roots: ca, SANs: []string{"example.com"}}}
	}
	failure := ""
	l := New(Config{
		Waiting:    func(objectid.Pool) (schedule.Wait, int, bool) { return schedule.Wait{}, 0, false },
		Federation: func() Federation { return nil }, Cluster: func() string { return "" },
		OnPage: func(_ objectid.Pool, member, why string) { failure = member + ": " + why },
		Log:    slog.New(slog.DiscardHandler),
	})
	l.SetPage(s.page(verify(ca)))
	l.readPages(t.Context())
	if got := s.credentials(); got != "" {
		t.Errorf("the page of an import that nothing is chosen for was read: got %s, want no credentials", got)
	}
	l.SetClusters(whole,
		&picker.Clusters{List: []picker.Cluster{{Name: "east", Hop: "to-east"}, {Name: "west", Hop: "to-west"}}})
	wait := func() float64 { t.Helper(); return waitOfEast(t, l) }
	l.mu.RLock()
	c := l.imports[whole]
	l.mu.RUnlock()
	loadEast(l)
	one := wait()
	l.readPages(t.Context())
	if eight := wait(); one == 0 || eight > one/7 || failure != "" {
		t.Errorf("a request waits %.3f s, and %.3f s once the page shows 8 servers; %q, want at most a 7th, and no "+
			"failure", one, eight, failure)
	}
	if got := c.load.Standings(time.Now())[0].Servers; got != 8 {
		t.Errorf("%d servers, want 8", got)
	}

	other := s.page(verify(ca))
	other.Authorization = "Bearer another"
	l.SetPage(other)
	l.readPages(t.Context())
	if failure != "east: it does not accept the credential (401)" || l.servers(other.Import, "east") != 0 {
		t.Errorf("%q, %d servers, want %q and 0",
			failure, l.servers(other.Import, "east"), "east: it does not accept the credential (401)")
	}
	sent := s.credentials()
	l.SetPage(s.page(verify([]byte{})))
	l.readPages(t.Context())
	if got := s.credentials(); got != sent || !strings.Contains(failure, "unknown authority") {
		t.Errorf("a server that is not verified received %s; %q, want nothing, and unknown authority",
			strings.TrimPrefix(got, sent), failure)
	}

	l.SetPage(s.page(verify(ca)))
	l.readPages(t.Context())
	if failure != "east: " || l.servers(other.Import, "east") != 8 {
		t.Errorf(`once it is read again: %q, %d servers, want "east: " and 8`, failure, l.servers(other.Import, "east"))
	}

	// Neither a server to which the picker redirects, nor a cleartext server, gets the credential.
	open := newPageServer(t, httptest.NewServer)
	s.mu.Lock()
	s.moved = open.URL + "/metrics"
	s.mu.Unlock()
	l.SetPage(s.page(verify(ca)))
	l.readPages(t.Context())
	if got := open.credentials(); got != "" || failure != "east: it answers 302" {
		t.Errorf("another server received %q; %q, want nothing, and east: it answers 302", got, failure)
	}
	l.SetClusters(whole, nil)
	l.readPages(t.Context())
	if failure != "east: " {
		t.Errorf(`without a choice, the page still fails: %q, want "east: "`, failure)
	}
	l.SetClusters(whole,
		&picker.Clusters{List: []picker.Cluster{{Name: "east", Hop: "to-east"}, {Name: "west", Hop: "to-west"}}})
	l.SetPage(open.page(nil))
	l.readPages(t.Context())
	if got := open.credentials(); got != "" {
		t.Errorf("in cleartext it received %q, want nothing", got)
	}
}

// Only a page that shows zero servers bars the cluster. A page without a number, or that cannot be
// read, does not.
func TestMetricsPage_ClusterWithoutReadyServersTakesNoRequest(t *testing.T) {
	var text atomic.Value
	s := httptest.NewServer(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text.Load()) }))
	t.Cleanup(s.Close)
	at := netip.MustParseAddrPort(s.Listener.Addr().String())
	l := New(Config{
		Waiting:    func(objectid.Pool) (schedule.Wait, int, bool) { return schedule.Wait{}, 0, false },
		Federation: func() Federation { return nil }, Cluster: func() string { return "" },
		Log: slog.New(slog.DiscardHandler),
	})
	key := objectid.Pool{Namespace: "default", Name: "chat"}
	l.SetPage(Page{Import: key, Member: "east", Pool: "chat", Addresses: []netip.Addr{at.Addr()}, Port: at.Port()})
	l.SetClusters(whole,
		&picker.Clusters{List: []picker.Cluster{{Name: "east", Hop: "to-east"}, {Name: "west", Hop: "to-west"}}})
	for _, c := range []struct {
		page   string
		barred bool
	}{
		{"inference_pool_ready_pods{name=\"chat\"} 0\n", true},
		{"inference_pool_average_queue_size{name=\"chat\"} 0\n", false},
		{"llm_d_epp_ready_endpoints{name=\"chat\"} 0\n", true},
		{"llm_d_epp_ready_endpoints{name=\"chat\"} 2\n", false},
	} {
		text.Store(c.page)
		l.readPages(t.Context())
		east := 0
		for range 100 {
			ranked, charge := l.Choose(whole, picker.ClusterPrompt{Tokens: 100}, true, nil)
			if ranked[0].Cluster == "east" {
				east++
			} else if c.barred && ranked[1].Barred != selection.BarredEmpty {
				t.Fatalf("%q: got %+v, want east barred as empty", c.page, ranked)
			}
			charge.End()
		}
		if c.barred != (east == 0) {
			t.Errorf("%q: %d of 100 requests are for east, want none: %t", c.page, east, c.barred)
		}
	}
	text.Store("llm_d_epp_ready_endpoints{name=\"chat\"} 0\n")
	l.readPages(t.Context())
	s.Close()
	l.readPages(t.Context())
	if got := l.servers(key, "east"); got != 0 {
		t.Errorf("of a page that cannot be read: got %d servers, want 0", got)
	}
}

func TestMetricsPage_ServersOfThePoolAreFound(t *testing.T) {
	for _, c := range []struct {
		page string
		want int
	}{
		{"inference_pool_ready_pods{name=\"chat\"} 3\n", 3},
		{"inference_pool_ready_pods{name=\"chat\"} 3 1700000000\n", 3},
		{"inference_pool_ready_pods{name=\"another\"} 2\nllm_d_epp_ready_endpoints{name=\"chat\"} 3e0\n", 3},
		{"inference_pool_ready_pods{name=\"of another name\"} 4\n", 4},
		{"inference_pool_ready_pods{name=\"a\"} 4\ninference_pool_ready_pods{name=\"b\"} 4\n", 0},
		{"inference_pool_ready_pods{name=\"chat\"} 0\n", noServers},
		{"inference_pool_ready_pods{name=\"chat\"} 0\nllm_d_epp_ready_endpoints{name=\"chat\"} 3\n", 3},
		{"llm_d_epp_ready_endpoints{name=\"chat\"} 3\ninference_pool_ready_pods{name=\"chat\"} 0\n", 3},
		{"inference_pool_ready_pods{name=\"chat\"} 0.5\n", 0},
		{"inference_pool_ready_pods{name=\"chat\"} -1\n", 0},
		{"inference_pool_ready_pods{name=\"chat\"} NaN\n", 0},
		{"inference_pool_ready_pods{name=\"chat\"\n", 0},
		{"inference_pool_ready_pods{\n", 0},
		{"inference_pool_ready_pods_total{name=\"chat\"} 3\n", 0},
		{strings.Repeat("x", 1<<20), 0},
	} {
		if got := parse(strings.NewReader(c.page), "chat"); got != c.want {
			t.Errorf("%.60q: %d servers, want %d", c.page, got, c.want)
		}
	}
}

func FuzzMetricsPage_NoPageShowsServersThatCannotBe(f *testing.F) {
	for _, seed := range []string{"inference_pool_ready_pods{name=\"chat\"} 3\n",
		"llm_d_epp_ready_endpoints{name=\"chat\"} 1e9\n", "inference_pool_ready_pods{}",
		"inference_pool_ready_pods{name=\"}\" 1\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, page string) {
		if n := parse(strings.NewReader(page), "chat"); n < noServers || n > 1<<16 {
			t.Errorf("%d servers, want at least %d and at most %d", n, noServers, 1<<16)
		}
	})
}
