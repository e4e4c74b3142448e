package picker

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker/accesslog"
)

type access struct {
	mu      sync.Mutex
	allowed map[[2]string]bool
	lagging bool
	changed chan struct{}
}

func (a *access) Allowed(gateway string, pool objectid.Target) (bool, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.allowed[[2]string{gateway, pool.String()}], a.changed
}

func (a *access) Lagging() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lagging
}

func (a *access) allow(gateway, pool string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.allowed[[2]string{gateway, pool}] = true
	close(a.changed)
	a.changed = make(chan struct{})
}

func byHeader(ctx context.Context) string {
	md, _ := metadata.FromIncomingContext(ctx)
	if v := md.Get("gateway"); len(v) > 0 {
		return v[0]
	}
	return ""
}

// keyedPicker returns a picker with two pools of one endpoint each, and a Gateway that may use
// ns/own.
func keyedPicker(t *testing.T, c Config) (p *Picker, may *access,
	pick func(gateway, pool string) (lease string, code codes.Code)) {
	t.Helper()
	may = &access{allowed: map[[2]string]bool{{"ns/gw", "ns/own"}: true}, changed: make(chan struct{})}
	from, _ := c.Callers.(callers)
	from.gateway = byHeader
	c.Callers, c.Access = from, may
	p = runPicker(t, c)
	_, address := servePicker(t, p)
	setPools(t, p, Pool{ID: poolID("ns/own"), Endpoints: specs(first)},
		Pool{ID: poolID("ns/theirs"), Default: true, Endpoints: specs(second)})
	conn := dialPicker(t, address)
	return p, may, func(gateway, pool string) (string, codes.Code) {
		pairs := []string{"gateway", gateway}
		if pool != "" {
			pairs = append(pairs, "x-penstock-pool", pool)
		}
		stream, _ := call(t, conn, pairs...)
		_ = stream.Send(headerMessage(nil)) // fails if the call was denied at once
		r, err := stream.Recv()
		return r.GetDynamicMetadata().GetFields()["penstock"].GetStructValue().GetFields()["lease"].GetStringValue(),
			status.Code(err)
	}
}

func TestPickerKey_OpensPoolsOfItsGatewayAlone(t *testing.T) {
	_, may, pick := keyedPicker(t, Config{})
	for _, c := range []struct {
		gateway, pool string
		want          codes.Code
	}{
		{"ns/gw", "ns/own", codes.OK},
		{"ns/gw", "ns/theirs", codes.PermissionDenied},
		{"ns/gw", "", codes.PermissionDenied}, // the default pool is ns/theirs
		{"ns/other", "ns/own", codes.PermissionDenied},
		{"ns/gw", "ns/unknown", codes.Unavailable}, // another picker may have this pool
	} {
		if _, code := pick(c.gateway, c.pool); code != c.want {
			t.Errorf("the key of %s, pool %q: %v, want %v", c.gateway, c.pool, code, c.want)
		}
	}
	may.mu.Lock()
	may.lagging = true
	may.mu.Unlock()
	if _, code := pick("ns/gw", "ns/theirs"); code != codes.Unavailable {
		t.Errorf("a process that may lack the route: %v, want %v", code, codes.Unavailable)
	}
}

// A pick waits for a new route that Envoy has before this process.
func TestPickerKey_NewRouteIsWaitedFor(t *testing.T) {
	_, may, pick := keyedPicker(t, Config{})
	time.AfterFunc(50*time.Millisecond, func() { may.allow("ns/unrelated", "ns/own"); may.allow("ns/gw", "ns/theirs") })
	if _, code := pick("ns/gw", "ns/theirs"); code != codes.OK {
		t.Errorf("a pick of a new route: %v, want %v", code, codes.OK)
	}
}

// With a stolen key, a Gateway can neither end nor move the requests of other Gateways, nor make
// their pools look full.
func TestPickerKey_ReportsCountForItsOwnRequestsAlone(t *testing.T) {
	p, may, pick := keyedPicker(t, Config{Peers: alone{}})
	may.allow("ns/victim", "ns/theirs")
	theirs, _ := pick("ns/victim", "ns/theirs")
	own, _ := pick("ns/gw", "ns/own")
	for what, e := range map[string]accesslog.Entry{
		"the end of another Gateway's request": {Lease: theirs, Status: 200},
		"another Gateway's request moves":      {Lease: theirs, Open: true, Served: first},
		"an own request at another pool's endpoint": {
			Lease: "gone.1", Pool: "ns/own", Open: true, Served: second,
		},
		"another pool's request of a process that is gone": {
			Lease: "gone.2", Pool: "ns/theirs", Open: true, Served: second,
		},
		"a request without a pool": {
			Lease: "gone.3", Pool: "", Open: true, Served: second,
		},
		"an unknown lease of this process": {
			Lease: p.leases.Owner() + ".zz", Pool: "ns/own", Open: true, Served: second,
		},
		"the end of a request of a process that is gone": {
			Lease: "gone.2", Pool: "ns/theirs", Served: second, Status: 200,
		},
		"a request that moves from the own pool to another one": {Lease: own, Open: true, Served: second},
	} {
		e.Gateway = "ns/gw"
		p.Log(e)
		if n := inFlight(p, second); n != 1 {
			t.Errorf("%s: %d requests in flight at the other pool's endpoint, want 1", what, n)
		}
	}
	if p.leases.Len() != 2 {
		t.Errorf("%d leases, want 2", p.leases.Len())
	}
}

// While Gateways have keys, a call without a key comes from another cluster, even if it names a
// Gateway. It may pick only from exported pools.
func TestPickerKey_CallWithoutOneOpensExportedPoolsAlone(t *testing.T) {
	_, _, pick := keyedPicker(t,
		Config{Keyed: true, Callers: callers{exported: func(pool, _ string) bool { return pool == "ns/own" }}})
	for _, c := range []struct {
		gateway, pool string
		want          codes.Code
	}{{"", "ns/own", codes.OK}, {"", "ns/theirs", codes.PermissionDenied}, {"", "ns/none", codes.PermissionDenied},
		{"", "", codes.OK}, {"ns/gw", "ns/own", codes.OK}, {"ns/gw", "ns/theirs", codes.PermissionDenied}} {
		if _, code := pick(c.gateway, c.pool); code != c.want {
			t.Errorf("gateway %q, pool %q: %s, want %s", c.gateway, c.pool, code, c.want)
		}
	}
}

// A process that starts has its exports only after its first translation. Members' calls wait until
// then, because a denial would cause a 503.
func TestPickerKey_ProcessThatStartsHasMembersWait(t *testing.T) {
	var asked atomic.Int32
	p, _, pick := keyedPicker(t,
		Config{Keyed: true, Callers: callers{exported: func(string, string) bool { return asked.Add(1) > 3 }}})
	if _, code := pick("", "ns/own"); code != codes.OK || asked.Load() != 4 {
		t.Errorf("%s after the export was asked for %d times, want %s and 4", code, asked.Load(), codes.OK)
	}
	asked.Store(0)
	p.gate.began = p.gate.began.Add(-youngFor)
	if _, code := pick("", "ns/own"); code != codes.PermissionDenied || asked.Load() != 1 {
		t.Errorf("in a process that runs for long: %s after the export was asked for %d times, want %s and 1",
			code, asked.Load(), codes.PermissionDenied)
	}
}
