package upstreamtest

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
)

// H2C starts a server for HTTP/2 with prior knowledge, until the test ends.
func H2C(t testing.TB, h http.Handler) (*httptest.Server, netip.AddrPort) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s, netip.MustParseAddrPort(s.Listener.Addr().String())
}
