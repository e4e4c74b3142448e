package upstream

import (
	"crypto/tls"
	"net/http"
	"net/netip"
	"time"
)

const (
	maxHeader = 64 << 10 // in bytes
	idleFor   = time.Minute
	// If an HTTP/2 connection receives no data for pingAfter, the transport sends a ping. Without
	// an answer within pingFor, it closes the connection. A call's timeout does not close a dead
	// connection.
	pingAfter, pingFor = 5 * time.Second, 5 * time.Second
)

// Protocol is how a pool's model servers are called. The zero value is HTTP/1.1 in cleartext.
type Protocol struct {
	TLS *tls.Config // nil means cleartext; immutable
	Key string      // identifies the TLS configuration, which Same cannot compare
	// HTTP2 means HTTP/2, with prior knowledge in cleartext, and by ALPN with TLS. Otherwise calls
	// use HTTP/1.1.
	HTTP2 bool
}

// Same reports whether two protocols are equal.
func (p Protocol) Same(other Protocol) bool { return p.Key == other.Key && p.HTTP2 == other.HTTP2 }

// WithoutTLS returns the protocol for a server without TLS.
func (p Protocol) WithoutTLS() Protocol { return Protocol{HTTP2: p.HTTP2} }

// URL returns the base of a server's URLs.
func (p Protocol) URL(server netip.AddrPort) string {
	if p.TLS != nil {
		return "https://" + server.String()
	}
	return "http://" + server.String()
}

// Transport returns a new transport. idle is the maximum number of idle connections to each server.
func (p Protocol) Transport(idle int) *http.Transport {
	t := &http.Transport{
		TLSClientConfig: p.TLS, DisableKeepAlives: idle == 0, MaxIdleConnsPerHost: idle, IdleConnTimeout: idleFor,
		DisableCompression: true, MaxResponseHeaderBytes: maxHeader,
	}
	if !p.HTTP2 {
		return t
	}
	t.Protocols = new(http.Protocols)
	if t.Protocols.SetUnencryptedHTTP2(p.TLS == nil); p.TLS != nil {
		t.Protocols.SetHTTP1(true)
		t.Protocols.SetHTTP2(true)
		t.TLSClientConfig = p.TLS.Clone() // the transport adds ALPN
	}
	if idle > 0 {
		t.HTTP2 = &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingFor}
	}
	return t
}
