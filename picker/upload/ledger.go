package upload

import "sync"

// Proxy is one Envoy. Envoys of one Gateway with the same address count as one.
type Proxy struct {
	Gateway string
	Address string // IP address of the calls
}

// Ledger counts the bytes that each proxy holds. The zero value is ready to use.
type Ledger struct {
	mu   sync.Mutex
	held map[Proxy]int64
}

// least is the minimum number of bytes of an upload: about the memory of a call without a body.
const least = 64 << 10

// Upload counts the memory that one request's body takes in its proxy. It is not safe for
// concurrent use.
type Upload struct {
	ledger *Ledger
	proxy  Proxy
	limit  int64
	sent   int64
	held   int64
}

// Open starts an upload through a proxy that may hold limit bytes in all. The caller closes the
// Upload.
func (l *Ledger) Open(p Proxy, limit int64) *Upload {
	return &Upload{ledger: l, proxy: p, limit: limit}
}

// Take reserves n more bytes for the upload. It returns false, and reserves nothing, if the upload
// would then take more than half of the memory that other uploads leave.
func (u *Upload) Take(n int64) bool {
	l := u.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	room := (u.limit - (l.held[u.proxy] - u.held)) / 2
	if n < 0 || n > room-u.sent || least > room {
		return false
	}
	u.sent += n
	more := max(u.sent, least) - u.held
	u.held += more
	if l.held == nil {
		l.held = map[Proxy]int64{}
	}
	l.held[u.proxy] += more
	return true
}

// Close releases the upload's bytes.
func (u *Upload) Close() {
	if u.held == 0 {
		return
	}
	l := u.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held[u.proxy] -= u.held; l.held[u.proxy] == 0 {
		delete(l.held, u.proxy)
	}
	u.sent, u.held = 0, 0
}

// Held returns the bytes that all proxies hold.
func (l *Ledger) Held() (n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.held {
		n += h
	}
	return n
}
