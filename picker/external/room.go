package external

import (
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
)

// bodyPart is the buffer of a body before its first byte arrives, in bytes.
const bodyPart = 64 << 10

// room bounds the memory of all request bodies. A body's buffer grows while its bytes arrive, so a
// client that only announces a large body takes little. The bodies from one address take at most
// half of all, or one body if this is more.
type room struct {
	all, each int64

	mu        sync.Mutex
	held      int64
	byAddress map[string]int64
}

func newRoom(all, body int64) *room {
	return &room{all: all, each: max(all/2, body), byAddress: map[string]int64{}}
}

var errNoRoom = errors.New("there is no room for the body")

func (r *room) take(address string, n int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held+n > r.all || r.byAddress[address]+n > r.each {
		return errNoRoom
	}
	r.held += n
	r.byAddress[address] += n
	return nil
}

func (r *room) release(address string, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held -= n
	if r.byAddress[address] -= n; r.byAddress[address] <= 0 {
		delete(r.byAddress, address)
	}
}

// read reads a body of a known size. The caller calls release after the last use of the body, and
// after an error.
func (r *room) read(request *http.Request, size int64) (body []byte, release func(), err error) {
	address, _, err := net.SplitHostPort(request.RemoteAddr)
	if err != nil {
		address = request.RemoteAddr
	}
	taken := int64(0)
	release = func() { r.release(address, taken) }
	for int64(len(body)) < size {
		if len(body) == cap(body) {
			grown := min(max(2*int64(cap(body)), bodyPart), size)
			if err := r.take(address, grown-taken); err != nil {
				return nil, release, err
			}
			taken = grown
			next := make([]byte, len(body), grown)
			copy(next, body)
			body = next
		}
		n, err := request.Body.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if int64(len(body)) < size && err != nil {
			return nil, release, io.ErrUnexpectedEOF
		}
	}
	return body, release, nil
}
