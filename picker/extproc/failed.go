package extproc

import (
	"context"
	"net/netip"

	"google.golang.org/grpc"
)

// HeaderDead is a response header that the picker adds if the server of a failed response is dead.
// The gateway then retries the request at another server.
const HeaderDead = "penstock-server-dead"

// Failures determines whether servers with failed responses are dead.
type Failures interface {
	// Dead reports whether a server of a pool is dead. It may block. gateway is the Gateway that
	// picks from the pool.
	Dead(ctx context.Context, gateway, pool string, server netip.AddrPort) bool
}

type working struct{}

func (working) Dead(context.Context, string, string, netip.AddrPort) bool { return false }

func (s *Server) failed(stream grpc.ServerStream, c *call) error {
	m := newMessage()
	err := stream.RecvMsg(m)
	kind := m.Kind
	m.Free()
	if err != nil || kind != ResponseHeaders {
		return nil
	}
	answer := passResponseHeaders
	server, err := netip.ParseAddrPort(c.failed)
	if err == nil && s.Failures.Dead(stream.Context(), s.Gateway(stream.Context()), c.pool, server) {
		answer = headerReply(Header{HeaderDead, "1"})
	}
	_ = stream.SendMsg(answer) // fails if the request has ended
	return nil
}
