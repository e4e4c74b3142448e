package leader

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

// If a leader fails, its Lease expires after leaseDuration. A leader that cannot renew the Lease
// stops leading after renewDeadline. Each process reads the Lease every retryPeriod.
const (
	leaseDuration = 10 * time.Second
	renewDeadline = 7 * time.Second
	retryPeriod   = 2 * time.Second
)

// Config configures an Elector. Only Log is optional.
type Config struct {
	REST      *rest.Config
	Namespace string       // of the Lease
	Name      string       // of the Lease
	Identity  string       // name of this process, unique
	Log       *slog.Logger // nil: slog.Default
}

// Elector makes this process take part in the election of a leader while Run runs.
type Elector struct {
	cfg     Config
	lock    *heartbeat
	leading atomic.Bool
}

// New makes an Elector.
func New(cfg Config) (*Elector, error) {
	if cfg.REST == nil || cfg.Namespace == "" || cfg.Name == "" || cfg.Identity == "" {
		return nil, errors.New("leader election: API server, namespace, name or identity is missing")
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	rc := rest.CopyConfig(cfg.REST)
	rc.QPS = -1
	rc.ContentType = runtime.ContentTypeJSON // JSON as in all other writes
	rc.Timeout = renewDeadline / 2           // leaves time for a second attempt
	client, err := coordinationv1.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	lock := &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: cfg.Namespace, Name: cfg.Name}, Client: client,
		LockConfig: resourcelock.ResourceLockConfig{Identity: cfg.Identity},
	}
	return &Elector{cfg: cfg, lock: &heartbeat{Interface: lock}}, nil
}

// Leading reports whether this process leads.
func (l *Elector) Leading() bool { return l.leading.Load() }

// LastContact returns when the API server last responded; zero: never. While Run runs and the API
// server responds, LastContact is about two seconds ago at most.
func (l *Elector) LastContact() time.Time {
	if at := l.lock.contact.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Run takes part in the election until ctx ends or lead fails. It calls lead each time that this
// process becomes the leader. The context of lead ends before another process may lead.
func (l *Elector) Run(ctx context.Context, lead func(context.Context) error) error {
	for ctx.Err() == nil {
		var failed error
		var quiet klog.Logger
		ended := make(chan struct{})
		l.lock.held.Store(false)
		term, end := context.WithCancel(klog.NewContext(ctx, quiet))
		elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
			Lock: l.lock, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
			Name:            l.cfg.Name,
			ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(ctx context.Context) {
					defer close(ended)
					defer l.leading.Store(false)
					l.leading.Store(true)
					l.cfg.Log.Info("leading: this process writes statuses")
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
			<-ended // OnStartedLeading may not have run yet
		}
		if failed != nil {
			return failed
		}
	}
	return ctx.Err()
}

type heartbeat struct {
	resourcelock.Interface
	contact atomic.Pointer[time.Time] // has a monotonic reading: the clock may be adjusted
	held    atomic.Bool               // the Lease was acquired since held was last reset
}

func (h *heartbeat) note(err error) error {
	// An error response of the API server also proves contact.
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) ||
		apierrors.IsForbidden(err) {
		now := time.Now()
		h.contact.Store(&now)
	}
	return err
}

func (h *heartbeat) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	r, raw, err := h.Interface.Get(ctx)
	return r, raw, h.note(err)
}

func (h *heartbeat) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	err := h.Interface.Create(ctx, r)
	if err == nil {
		h.held.Store(true)
	}
	return h.note(err)
}

func (h *heartbeat) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	err := h.Interface.Update(ctx, r)
	if err == nil {
		h.held.Store(true)
	}
	return h.note(err)
}
