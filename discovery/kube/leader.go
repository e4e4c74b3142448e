package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
)

// How long a leader that is gone is waited for, how long one that cannot renew goes on, and how often each process looks.
const (
	leaseDuration = 10 * time.Second
	renewDeadline = 7 * time.Second
	retryPeriod   = 2 * time.Second
)

// LeaderConfig is what a Leader needs. All but Log is required.
type LeaderConfig struct {
	REST      *rest.Config
	Namespace string // of the Lease
	Name      string // of the Lease
	Identity  string // of this process; no two have the same
	Log       *slog.Logger
}

// Leader takes part in the election of the one process that writes to the API server.
type Leader struct {
	cfg     LeaderConfig
	lock    *heartbeat
	leading atomic.Bool
}

// NewLeader makes a Leader; it stands for election when it runs.
func NewLeader(cfg LeaderConfig) (*Leader, error) {
	if cfg.REST == nil || cfg.Namespace == "" || cfg.Name == "" || cfg.Identity == "" {
		return nil, errors.New("leader election: API server, namespace, name or identity is missing")
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	rc := rest.CopyConfig(cfg.REST)
	rc.QPS = -1
	rc.ContentType = runtime.ContentTypeJSON // as all else that we say; a lease is small
	rc.Timeout = renewDeadline / 2           // one request that hangs must not cost the lease
	client, err := coordinationv1.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: cfg.Namespace, Name: cfg.Name}, Client: client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: cfg.Identity},
	}
	return &Leader{cfg: cfg, lock: &heartbeat{Interface: lock}}, nil
}

// Leading says whether this process leads.
func (l *Leader) Leading() bool { return l.leading.Load() }

// Heard is when the API server last answered; the zero time before it did. A process that runs hears from it every two
// seconds.
func (l *Leader) Heard() time.Time {
	if ns := l.lock.heard.Load(); ns != 0 {
		return time.Unix(0, ns)
	}
	return time.Time{}
}

// Run calls lead while this process leads, again each time that it comes to lead, until ctx ends or lead fails. The context
// of lead ends when another process may lead.
func (l *Leader) Run(ctx context.Context, lead func(context.Context) error) error {
	for ctx.Err() == nil {
		var failed error
		var quiet klog.Logger
		ended := make(chan struct{})
		l.lock.held.Store(false)
		term, end := context.WithCancel(klog.NewContext(ctx, quiet))
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: l.lock, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, Name: l.cfg.Name,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) {
					defer close(ended)
					defer l.leading.Store(false)
					l.leading.Store(true)
					l.cfg.Log.Info("leading: statuses are written here")
					if err := lead(ctx); err != nil && ctx.Err() == nil {
						failed = err
						end()
					}
				},
				OnStoppedLeading: func() {},
				OnNewLeader: func(identity string) {
					if identity != l.cfg.Identity {
						l.cfg.Log.Info("another process leads", "leader", identity)
					}
				},
			},
		})
		if err != nil {
			end()
			return fmt.Errorf("leader election: %w", err)
		}
		elector.Run(term)
		end()
		if l.lock.held.Load() {
			<-ended // it was called, be it that it has not begun yet
		}
		if failed != nil {
			return failed
		}
	}
	return ctx.Err()
}

// heartbeat notes when the API server last answered.
type heartbeat struct {
	resourcelock.Interface
	heard atomic.Int64 // Unix nanoseconds
	held  atomic.Bool  // this process has taken the lease, since it was set to false
}

func (h *heartbeat) note(err error) error {
	// That it said no is an answer too.
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsForbidden(err) {
		h.heard.Store(time.Now().UnixNano())
	}
	return err
}

// Get implements resourcelock.Interface.
func (h *heartbeat) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	r, raw, err := h.Interface.Get(ctx)
	return r, raw, h.note(err)
}

// Create implements resourcelock.Interface.
func (h *heartbeat) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	err := h.Interface.Create(ctx, r)
	if err == nil {
		h.held.Store(true)
	}
	return h.note(err)
}

// Update implements resourcelock.Interface.
func (h *heartbeat) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	err := h.Interface.Update(ctx, r)
	if err == nil {
		h.held.Store(true)
	}
	return h.note(err)
}
