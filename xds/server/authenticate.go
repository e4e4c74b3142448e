package server

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/xds/admission"
	"github.com/penstock-project/penstock/xds/bootstrap"
)

// Authenticate verifies the credential of a call by TLS and metadata. An error denies the call.
type Authenticate func(ctx context.Context) (Proxy, error)

// Proxy is an authenticated client.
type Proxy interface {
	// Gateway returns the gateway that a node may read. An error denies the connection.
	Gateway(node *corev3.Node) (string, error)
	// Permitted returns an error once the proxy may no longer read the gateway. The Server calls it
	// in Recheck, and at the time `next`, if not zero.
	Permitted(gateway string) (next time.Time, err error)
}

// TrustNode requires no credential, and takes the gateway from node.cluster. It is for loopback and
// Unix sockets only.
func TrustNode(context.Context) (Proxy, error) { return trusted{}, nil }

type trusted struct{}

func (trusted) Gateway(node *corev3.Node) (string, error) {
	gateway := node.GetCluster()
	if _, _, ok := objectid.Split(gateway); !ok {
		return "", fmt.Errorf("node.cluster is %q: it must name the Gateway, as namespace/name", gateway)
	}
	return gateway, nil
}

func (trusted) Permitted(string) (time.Time, error) { return time.Time{}, nil }

func (s *Server) authenticate(ctx context.Context, w wire) (p Proxy, gateway string, first request, err error) {
	verifying, cancel := context.WithTimeout(ctx, verifyTimeout)
	defer cancel()
	if p, err = s.config.Authenticate(verifying); err != nil {
		return nil, "", first, s.denied(ctx, nil, err)
	}
	if _, trusting := p.(trusted); !trusting { // a trusted client is admitted after its first message
		admission.Admit(ctx)
	}
	if first, err = s.first(ctx, w); err != nil {
		return nil, "", first, err
	}
	first.profile = first.node.GetMetadata().GetFields()[bootstrap.ProfileKey].GetStringValue()
	if err = checkNames(first); err != nil {
		return nil, "", first, s.denied(ctx, nil, err)
	}
	first.node = trim(first.node)
	if gateway, err = p.Gateway(first.node); err != nil {
		return nil, "", first, s.denied(ctx, first.node, err)
	}
	admission.Admit(ctx)
	return p, gateway, first, nil
}

func (s *Server) denied(ctx context.Context, node *corev3.Node, reason error) error {
	s.logDenied(peerAddress(ctx), node, reason)
	return status.Error(codes.PermissionDenied, reason.Error())
}

var (
	errNoMessage = status.Error(codes.DeadlineExceeded, "no message came in time")
	errUnhandled = status.Error(codes.Internal, "the stream's message cannot be handled")
)

func (s *Server) first(ctx context.Context, w wire) (request, error) {
	type result struct {
		request
		err error
	}
	received := make(chan result, 1)
	go func() {
		defer func() {
			if v := recover(); v != nil {
				s.config.OnPanic(peerAddress(ctx), v, debug.Stack())
				received <- result{err: errUnhandled}
			}
		}()
		r, err := w.receive()
		received <- result{r, err}
	}()
	late := time.NewTimer(s.config.FirstMessage)
	defer late.Stop()
	select {
	case r := <-received:
		return r.request, r.err
	case <-late.C:
		return request{}, errNoMessage
	case <-ctx.Done():
		return request{}, ctx.Err()
	}
}
