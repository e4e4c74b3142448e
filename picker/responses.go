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
	responseTTL = time.Hour
	// maxResponses bounds a pool's known responses, of about 250 bytes each. At the bound, a new
	// response replaces the pool's oldest response. If the response's client already has
	// clientShare responses, it replaces this client's oldest response.
	maxResponses = 1 << 16
	clientShare  = maxResponses / 8
	responseWait = 100 * time.Millisecond
	// maxResponseWaits bounds a pool's waiting picks. Further picks do not wait.
	maxResponseWaits = 256
)

type responses struct {
	mu      sync.Mutex
	known   map[request.ResponseID]*linked.Element
	order   linked.List
	clients map[uint64]*linked.List
	waiting int
	changed chan struct{} // nil if no pick waits
}

type keptResponse struct {
	id     request.ResponseID
	at     string
	client uint64
	on     time.Time
	own    *linked.Element
}

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

// add records that a server or cluster has a response. A known response stays unchanged: clients
// may choose response IDs (vLLM's request_id), and must not redirect other clients' responses.
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
	for range 2 { // at most two expired responses, to keep each call short
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

// drop removes a response; nil means none. The caller holds s.mu.
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

func (s *responses) each(now time.Time, f func(*keptResponse) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := s.order.Back(); e != nil; e = e.Prev() {
		if k := e.Value.(*keptResponse); now.Sub(k.on) <= responseTTL && !f(k) {
			return
		}
	}
}

// place returns the pool's own copy of served if the pool has a server or a hop with this address,
// else "". A copy is kept because Envoys and peers may send strings of any length.
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

func (pool *pool) learnResponse(s Session, now time.Time) {
	if pool.responses == nil || s.Age < 0 || s.Age > responseTTL.Milliseconds() {
		return
	}
	if at := pool.place(s.Served); at != "" {
		pool.responses.add(s.Response, at, s.Client, now.Add(-time.Duration(s.Age)*time.Millisecond), now)
	}
}

// namedResponse returns the ID of the stored response in the path, or else of the response that the
// request continues (previous_response_id). names is true if the request names or creates a
// response.
func namedResponse(path []byte, f *request.Facts) (id request.ResponseID, names bool) {
	if id = request.ResponseInPath(path); id == (request.ResponseID{}) {
		id = f.Previous
	}
	return id, id != (request.ResponseID{}) || f.Kind == request.Responses
}

type follows uint8

const (
	followsNone follows = iota
	followsUnknown
	followsKept
	followsFull
	followsLost
)

// String describes to users how the stored response affects the pick; "" if the request names none.
func (f follows) String() string {
	switch f {
	case followsUnknown:
		return "it names a response of an unknown server: any server"
	case followsKept:
		return "it names a response, and goes to the server that keeps it"
	case followsFull:
		return "it names a response whose server is full: no other one has it"
	case followsLost:
		return "it names a response whose server takes no requests: any other one"
	}
	return ""
}

func isHop(at string) bool { return strings.Contains(at, "://") }
