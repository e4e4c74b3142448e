package upload

import "sync"

// Proxy is one Envoy. Several of one Gateway at one address count as one.
type Proxy struct {
	Gateway string // "namespace/name"; "" if calls need no key
	Address string // its IP address, as the call shows it
}

// Ledger counts the bytes that each proxy holds, and for which clients. The zero value is ready to use.
type Ledger struct {
	mu   sync.Mutex
	held map[Proxy]*account
}

// account is what one proxy holds.
type account struct {
	total   int64
	clients map[string]int64 // what they add up to is total
}

// least is what an upload counts at least, in bytes: with its call, and beside its body, it costs about as much.
const least = 64 << 10

// Upload is one request's share. It is not for concurrent use.
type Upload struct {
	ledger *Ledger
	proxy  Proxy
	client string
	limit  int64
	sent   int64 // of its body
	held   int64 // what it counts
}

// Open begins an upload of a client through a proxy that may hold limit bytes in all. Uploads with the same name of a client share
// that client's part. Call Close.
func (l *Ledger) Open(p Proxy, client string, limit int64) *Upload {
	return &Upload{ledger: l, proxy: p, client: client, limit: limit}
}

// Take takes n more bytes; also of none, an upload counts least. It reports false, and takes nothing, if the upload would have more than
// half of what the client's other uploads leave of its part. That is two thirds of what all other clients leave of the limit.
func (u *Upload) Take(n int64) bool {
	l := u.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.held[u.proxy]
	if a == nil {
		a = &account{clients: map[string]int64{}}
	}
	own := a.clients[u.client]
	part := (u.limit - (a.total - own)) / 3 * 2
	room := (part - (own - u.held)) / 2
	if n < 0 || n > room-u.sent || least > room {
		return false
	}
	u.sent += n
	more := max(u.sent, least) - u.held
	u.held += more
	if l.held == nil {
		l.held = map[Proxy]*account{}
	}
	a.total += more
	a.clients[u.client] += more
	l.held[u.proxy] = a
	return true
}

// Close returns what the upload took.
func (u *Upload) Close() {
	if u.held == 0 {
		return
	}
	l := u.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.held[u.proxy]
	if a.clients[u.client] -= u.held; a.clients[u.client] == 0 {
		delete(a.clients, u.client)
	}
	if a.total -= u.held; a.total == 0 {
		delete(l.held, u.proxy)
	}
	u.sent, u.held = 0, 0
}

// Held returns the bytes that all proxies hold.
func (l *Ledger) Held() (n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.held {
		n += a.total
	}
	return n
}
