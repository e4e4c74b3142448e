package picker

import (
	"context"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/picker/extproc"
)

const (
	// permitTimeout bounds how long a call waits for access to a pool: its Envoy may have a new
	// route that this process has not read yet. Envoy's timeout of a pick is longer (2 s).
	permitTimeout = 750 * time.Millisecond
	// maxPermitWaits bounds the calls that wait for access. Further calls are denied at once.
	maxPermitWaits = 256
)

// admit decides whether the caller may pick from the pool: a Gateway may if its routes use the
// pool, and a member of a cluster set if the pool is exported to it. The server has already
// verified the caller's key or certificate (xds/identity). admit sets Request.Imported. It admits a
// call for an unknown pool; the stage find rejects this call.
func admit(k *pick) { k.denied = k.picker.permit(k.ctx, k.request) }

func admitted(r *Record) string {
	if r.Gateway == "" {
		return ""
	}
	return "Gateway " + r.Gateway
}

func (p *Picker) permit(ctx context.Context, r *extproc.Request) error {
	r.Vouched = r.Member != "" && p.config.Believes != nil && p.config.Believes(r.Member)
	r.Imported = r.Member != "" || r.Pool != "" && r.Gateway == "" && (r.Imported || p.config.Keyed)
	if r.Imported && !p.exported(r) && !p.waitExported(ctx, r) {
		p.metrics.denied.WithLabelValues("").Inc()
		return status.Error(codes.PermissionDenied, "no pool with the name of this call is exported to other clusters")
	}
	if r.Gateway == "" || p.config.Access == nil {
		return nil
	}
	pool := p.pool(r.Pool)
	if pool == nil || p.allowed(r.Gateway, pool.ID) {
		return nil
	}
	if p.config.Access.Lagging() {
		return status.Error(codes.Unavailable,
			"this process lacks recent objects, and does not find a route of Gateway "+r.Gateway+" to pool "+pool.Name+
				": ask another picker")
	}
	if !p.waitAllowed(ctx, r.Gateway, pool.ID) {
		p.metrics.denied.WithLabelValues(r.Gateway).Inc()
		return status.Error(codes.PermissionDenied, "no route of Gateway "+r.Gateway+" uses pool "+pool.Name)
	}
	return nil
}

func (p *Picker) exported(r *extproc.Request) bool {
	return p.config.Callers.Exported(targetOf(r.Pool), r.Member)
}

type gate struct {
	began   time.Time
	waiting atomic.Int64
}

// For youngFor after its start, a process may not have read all exports, although members of the
// cluster set already call it.
const youngFor = 5 * time.Second

const exportedPoll = 20 * time.Millisecond

func (p *Picker) waitExported(ctx context.Context, r *extproc.Request) bool {
	if time.Since(p.gate.began) > youngFor {
		return false
	}
	return waitFor(ctx, p, func() (bool, <-chan time.Time) {
		return p.exported(r), time.After(exportedPoll)
	})
}

func (p *Picker) allowed(gateway string, pool objectid.Target) bool {
	if gateway == "" || p.config.Access == nil {
		return true
	}
	ok, _ := p.config.Access.Allowed(gateway, pool)
	return ok
}

func (p *Picker) waitAllowed(ctx context.Context, gateway string, pool objectid.Target) bool {
	return waitFor(ctx, p, func() (bool, <-chan struct{}) { return p.config.Access.Allowed(gateway, pool) })
}

// waitFor calls has until it returns ok: at once, and whenever changed closes or receives a value.
// It returns false after permitTimeout, and at once if maxPermitWaits calls already wait.
func waitFor[T any](ctx context.Context, p *Picker, has func() (ok bool, changed <-chan T)) bool {
	defer p.gate.waiting.Add(-1)
	if p.gate.waiting.Add(1) > maxPermitWaits {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, permitTimeout)
	defer cancel()
	for {
		ok, changed := has()
		if ok {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		}
	}
}
