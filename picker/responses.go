package picker

import (
	linked "container/list" // list is a function of this package
	"context"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock-project/penstock/picker/accesslog"
	"github.com/penstock-project/penstock/picker/request"
)

const (
	// responseTTL is how long the place of a response is known.
	responseTTL = time.Hour
	// maxResponses bounds the responses of a pool; each takes some 250 bytes. Beyond it the oldest
	// is forgotten, or a client's own oldest once it has clientShare.
	maxResponses = 1 << 16
	clientShare  = maxResponses / 8
	// responseWait is how long a pick waits for a response that is not known: its server may have
	// answered a moment ago. Envoy sends its access log every 5 ms, a peer that receives it
	// publishes it 2 ms later, and the picker that has the lease 20 ms later.
	responseWait = 100 * time.Millisecond
	// maxResponseWaits bounds the picks that wait, of a pool. Further ones do not wait.
	maxResponseWaits = 256
)

// responses are where the responses of a pool are that servers keep: "ip:port" of a server, or the
// hop to another cluster or pool. The zero value is empty.
type responses struct {
	mu      sync.Mutex
	known   map[request.ResponseID]*linked.Element
	order   linked.List // of *keptResponse, the oldest first
	clients map[uint64]*linked.List
	waiting int
	changed chan struct{} // closes when a response is added; nil: nothing waits
}

// keptResponse is a response that a server keeps.
type keptResponse struct {
	id     request.ResponseID
	at     string
	client uint64
	on     time.Time
	own    *linked.Element // in the list of its client
}

// find returns where a response is; "" if that is not known.
func (s *responses) find(id request.ResponseID, now time.Time) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.at(id, now)
}

func (s *responses) at(id request.ResponseID, now time.Time) string {
	if e := s.known[id]; e != nil && now.Sub(e.Value.(*keptResponse).on) <= responseTTL {
		return e.Value.(*keptResponse).at
	}
	return ""
}

// await is find for a response that may be added soon.
func (s *responses) await(ctx context.Context, id request.ResponseID) string {
	var expired <-chan time.Time
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		at := s.at(id, time.Now())
		if at != "" || expired == nil && s.waiting >= maxResponseWaits {
			return at
		}
		if expired == nil {
			expired = time.After(responseWait)
			s.waiting++
			defer func() { s.waiting-- }()
		}
		if s.changed == nil {
			s.changed = make(chan struct{})
		}
		changed := s.changed
		s.mu.Unlock()
		over := false
		select {
		case <-changed:
		case <-expired:
			over = true
		case <-ctx.Done():
			over = true
		}
		if s.mu.Lock(); over {
			return s.at(id, time.Now())
		}
	}
}

// add records where a response is. It reports whether that was not known. A known response stays
// where it is: clients may choose IDs (vLLM's request_id), and must not move the responses of
// others.
func (s *responses) add(id request.ResponseID, at string, client uint64, on, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(on) > responseTTL || s.at(id, now) != "" {
		return false
	}
	if s.known == nil {
		s.known, s.clients = map[request.ResponseID]*linked.Element{}, map[uint64]*linked.List{}
	}
	s.drop(s.known[id])
	if own := s.clients[client]; own != nil && own.Len() >= clientShare && len(s.known) >= maxResponses {
		s.drop(own.Front().Value.(*linked.Element))
	}
	for range 2 { // so many at most: one response does not pay for all that have expired
		if first := s.order.Front(); first != nil &&
			(len(s.known) >= maxResponses || now.Sub(first.Value.(*keptResponse).on) > responseTTL) {
			s.drop(first)
		}
	}
	own := s.clients[client]
	if own == nil {
		own = linked.New()
		s.clients[client] = own
	}
	next := &keptResponse{id: id, at: at, client: client, on: on}
	e := s.order.PushBack(next)
	next.own = own.PushBack(e)
	if s.known[id] = e; s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
	return true
}

// drop forgets a response; nil does nothing. s.mu is held.
func (s *responses) drop(e *linked.Element) {
	if e == nil {
		return
	}
	k := e.Value.(*keptResponse)
	own := s.clients[k.client]
	own.Remove(k.own)
	if own.Len() == 0 {
		delete(s.clients, k.client)
	}
	delete(s.known, k.id)
	s.order.Remove(e)
}

// each calls f for the responses that have not expired, the newest first, until it returns false.
func (s *responses) each(now time.Time, f func(*keptResponse) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := s.order.Back(); e != nil; e = e.Prev() {
		if k := e.Value.(*keptResponse); now.Sub(k.on) <= responseTTL && !f(k) {
			return
		}
	}
}

// place returns a text of the pool's own for a place that its requests are sent to: the address of
// a server, or a hop; "" for any other. Envoys and peers may send texts of any length.
func (pool *pool) place(served string) string {
	if addr, err := netip.ParseAddrPort(served); err == nil {
		if pool.snapshot.Find(addr) == nil {
			return ""
		}
		return addr.String()
	}
	if i := slices.Index(pool.Spill, served); i >= 0 {
		return pool.Spill[i]
	}
	if pool.Clusters == nil {
		return ""
	}
	if i := slices.IndexFunc(pool.Clusters.List, func(c Cluster) bool { return c.Hop == served }); i >= 0 {
		return pool.Clusters.List[i].Hop
	}
	return ""
}

// keepResponse records where the response is that an access log shows, for all processes. name is
// the pool of the lease.
func (p *Picker) keepResponse(name string, e *accesslog.Entry) {
	pool := p.pools.now.Load().byName[name]
	if e.Response == (request.ResponseID{}) || pool == nil || pool.responses == nil || e.Status != 200 {
		return
	}
	at, now := pool.place(e.Served), time.Now()
	if at != "" && pool.responses.add(e.Response, at, e.Client, now, now) && p.config.Sharing != nil {
		p.config.Sharing.Session(Session{Pool: pool.ID, Response: e.Response, Served: at, Client: e.Client})
	}
}

// learnResponse is LearnSession for a response.
func (pool *pool) learnResponse(s Session, now time.Time) {
	if pool.responses == nil || s.Age < 0 || s.Age > responseTTL.Milliseconds() {
		return
	}
	if at := pool.place(s.Served); at != "" {
		pool.responses.add(s.Response, at, s.Client, now.Add(-time.Duration(s.Age)*time.Millisecond), now)
	}
}

// namedResponse is the response that a request needs at its server: by its path, or the one that it
// follows. names reports whether it is for a response at all, new ones included.
func namedResponse(path []byte, f *request.Facts) (id request.ResponseID, names bool) {
	if id = request.ResponseInPath(path); id == (request.ResponseID{}) {
		id = f.Previous
	}
	return id, id != (request.ResponseID{}) || f.Kind == request.Responses
}

// follows is the outcome of recall: where a pick sends a request that names a response.
type follows uint8

const (
	followsNone follows = iota
	followsUnknown
	followsKept // the request goes there
	followsFull // its server is full
	followsLost // its server takes no requests
)

// String describes it for a reader; "" for a request that names no response.
func (f follows) String() string {
	switch f {
	case followsUnknown:
		return "it names a response of which the server is not known: any server"
	case followsKept:
		return "it names a response, and goes to the server that keeps it"
	case followsFull:
		return "it names a response whose server is full: no other one has it"
	case followsLost:
		return "it names a response whose server takes no requests: any other one"
	}
	return ""
}

// isHop reports whether a place is a hop.
func isHop(at string) bool { return strings.Contains(at, "://") }
