package probe

import (
	"context"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/penstock-project/penstock/picker/dial"
	"github.com/penstock-project/penstock/picker/extproc"
)

// Health locates the gRPC health service of a picker's addresses. Port 0 means no health checks.
type Health struct {
	Port uint16
	TLS  *dial.TLS
	// Authorization is the Authorization header of health checks, or "". It requires TLS with
	// Verify.
	Authorization string
}

// SetHealth sets the health port of a picker. The picker is down if this port reports that it does
// not serve. An unreachable health port does not count, because a firewall may permit only picks.
func (p *Prober) SetHealth(name string, at Health) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.health[name] = at; at.Port == 0 {
		delete(p.health, name)
	}
}

func (p *Prober) healthOf(name string) Health {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.health[name]
}

type state struct {
	sick string // report of the health port if the picker does not serve, else ""
	mute string // why a health port over TLS does not report, or ""
}

func (p *Prober) followHealth(ctx context.Context, at address, results chan<- result) {
	var port Health
	var conn *grpc.ClientConn
	drop := func() {
		if conn != nil {
			_ = conn.Close()
			conn = nil
		}
	}
	defer func() { drop() }()
	last := state{}
	t := time.NewTicker(p.cfg.HealthInterval)
	defer t.Stop()
	for {
		current := state{}
		if now := p.healthOf(at.name); !reflect.DeepEqual(now, port) {
			drop()
			port = now
		}
		if port.Port != 0 {
			if conn == nil {
				var err error
				if conn, err = port.connect(at.addr.Addr()); err != nil {
					conn, current.mute = nil, err.Error()
				}
			}
			if conn != nil {
				current = p.check(ctx, conn, port)
			}
		}
		if ctx.Err() == nil && current != last {
			last = current
			select {
			case results <- result{address: at, health: &current}:
			case <-ctx.Done():
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

func (h Health) connect(ip netip.Addr) (*grpc.ClientConn, error) {
	at := dial.Address{AddrPort: netip.AddrPortFrom(ip, h.Port), Cleartext: h.TLS == nil}
	if h.TLS == nil {
		return dial.Connect(at, dial.TLS{})
	}
	var options []grpc.DialOption
	if h.Authorization != "" {
		options = append(options, dial.Authorized(h.Authorization))
	}
	return dial.Connect(at, *h.TLS, options...)
}

func (p *Prober) check(ctx context.Context, conn *grpc.ClientConn, port Health) (found state) {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	client := healthv1.NewHealthClient(conn)
	r, err := client.Check(ctx, &healthv1.HealthCheckRequest{Service: ServiceName})
	if status.Code(err) == codes.NotFound {
		r, err = client.Check(ctx, &healthv1.HealthCheckRequest{})
	}
	switch {
	case err == nil && r.Status == healthv1.HealthCheckResponse_NOT_SERVING:
		found.sick = fmt.Sprintf("its health port %d reports NOT_SERVING", port.Port)
	case err != nil && port.TLS != nil:
		found.mute = mute(err)
	}
	return found
}

// mute returns why a health port does not report. It omits the server's text, which could contain
// the credential.
func mute(err error) string {
	switch code := status.Code(err); {
	case code == codes.Unauthenticated || code == codes.PermissionDenied:
		return "it does not accept the credential (" + code.String() + ")"
	case code == codes.Unavailable && strings.Contains(err.Error(), "connection error: desc = "):
		return extproc.Reason(err)
	default:
		return "its gRPC health service answers " + code.String()
	}
}
