package probe

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/penstock-project/penstock/picker/dial"
)

// SetHealth notes the port at which each address of a picker serves gRPC health, in cleartext; 0: at none. A picker that reports there
// that it does not serve is down. One whose port does not answer is not: firewalls may admit picks alone.
func (p *Prober) SetHealth(name string, port uint16) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.health[name] = port; port == 0 {
		delete(p.health, name)
	}
}

func (p *Prober) healthPort(name string) uint16 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.health[name]
}

// followHealth reports what the health port of an address reports, until ctx ends.
func (p *Prober) followHealth(ctx context.Context, at address, results chan<- result) {
	var port uint16
	var conn *grpc.ClientConn
	drop := func() {
		if conn != nil {
			_ = conn.Close()
			conn = nil
		}
	}
	defer func() { drop() }()
	last := ""
	t := time.NewTicker(p.cfg.HealthInterval)
	defer t.Stop()
	for {
		if now := p.healthPort(at.name); now != port {
			drop()
			if port = now; now != 0 {
				conn, _ = dial.Connect(dial.Address{AddrPort: netip.AddrPortFrom(at.addr.Addr(), now), Cleartext: true}, dial.TLS{}) // an error leaves nil
			}
		}
		why := ""
		if conn != nil && p.notServing(ctx, conn) {
			why = fmt.Sprintf("its health port %d reports NOT_SERVING", port)
		}
		if ctx.Err() == nil && why != last {
			last = why
			select {
			case results <- result{address: at, sick: &why}:
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

// notServing reports whether a health service states that the picker does not serve: by the name of its service, or that of the process.
func (p *Prober) notServing(ctx context.Context, conn *grpc.ClientConn) bool {
	ctx, cancel := context.WithTimeout(ctx, p.cfg.Timeout)
	defer cancel()
	client := healthv1.NewHealthClient(conn)
	r, err := client.Check(ctx, &healthv1.HealthCheckRequest{Service: ServiceName})
	if status.Code(err) == codes.NotFound {
		r, err = client.Check(ctx, &healthv1.HealthCheckRequest{})
	}
	return err == nil && r.Status == healthv1.HealthCheckResponse_NOT_SERVING
}
