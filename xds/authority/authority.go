package authority

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"sync"
	"time"
)

// ErrChanged is the error of Secrets.Write if the Secret has another version.
var ErrChanged = errors.New("the Secret has changed meanwhile")

// Secrets stores the authority. *apply.Secret implements it.
type Secrets interface {
	// Read returns the data and its version, both empty if there is no Secret.
	Read(ctx context.Context) (data map[string][]byte, version string, err error)
	// Write replaces the data, or creates the Secret if version is empty. The error is ErrChanged
	// if the Secret has another version.
	Write(ctx context.Context, data map[string][]byte, version string) error
}

// Config configures an Authority.
type Config struct {
	Secrets Secrets // required
	// Names are the control plane's DNS names, at least one.
	Names []string
	// ID is the SPIFFE ID in certificates, for other clusters. Optional.
	ID *url.URL
	// Changed is called by Run when Bundle or the first of Keys has changed. The first call is
	// before Ready. Optional.
	Changed func()
	// Life and CertificateLife are how long an authority and a certificate are in use. Overlap is
	// how long an authority is in the bundle before it signs. Defaults: one year, one day, one day.
	Life, CertificateLife, Overlap time.Duration
	// Validity is how long a certificate is valid before and after its signing. It must exceed
	// CertificateLife. 0 means as long as the authority.
	Validity time.Duration
	// Interval is the time between reads of the Secret. Default: 10 s.
	Interval time.Duration
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	Log *slog.Logger
}

// Authority issues the certificates of one installation. It is safe for concurrent use.
type Authority struct {
	cfg Config

	mu     sync.RWMutex
	state  state
	cert   *tls.Certificate
	given  *signer
	former []formerSigner
	keys   map[string][]string
	ready  chan struct{}

	// Only Run uses these fields.
	issued  signed
	damaged time.Time // zero if the Secret is intact
}

// Proxies may still have keys derived from a formerSigner.
type formerSigner struct {
	*signer
	until time.Time
}

const maxFormer = 4

const defaultLife = 365 * 24 * time.Hour

// New returns an Authority that is not ready.
func New(c Config) *Authority {
	c.Life = cmp.Or(c.Life, defaultLife)
	c.CertificateLife = cmp.Or(c.CertificateLife, 24*time.Hour)
	c.Overlap = cmp.Or(c.Overlap, 24*time.Hour)
	c.Interval = cmp.Or(c.Interval, 10*time.Second)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Changed == nil {
		c.Changed = func() {}
	}
	return &Authority{cfg: c, keys: map[string][]string{}, ready: make(chan struct{})}
}

// Run keeps the authority and this process's certificate up to date until ctx ends. It retries
// after errors.
func (a *Authority) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
		wait := a.cfg.Interval
		if err := a.renew(ctx); err != nil && ctx.Err() == nil {
			if !errors.Is(err, ErrChanged) {
				a.cfg.Log.Warn("cannot update the certificate authority; retrying", "error", err)
			}
			wait = min(wait, time.Second)
		}
		timer.Reset(wait)
	}
}

func (a *Authority) renew(ctx context.Context) error {
	data, version, err := a.cfg.Secrets.Read(ctx)
	if err != nil {
		err = fmt.Errorf("read the authority: %w", err)
		if held := a.held(); held.current != nil {
			err = errors.Join(err, a.take(held, a.cfg.Now()))
		}
		return err
	}
	now := a.cfg.Now()
	s, changed, err := a.next(data, now)
	if err != nil {
		return fmt.Errorf("the authority: %w", err)
	}
	if changed {
		if err := a.cfg.Secrets.Write(ctx, s.write(), version); err != nil {
			return fmt.Errorf("write the authority: %w", err)
		}
	}
	return a.take(s, now)
}

// damagePause gives other processes time to restore a damaged Secret.
const damagePause = 20 * time.Second

// If the Secret is missing or damaged, next returns the state in memory, so that proxies and
// processes keep trusting each other.
func (a *Authority) next(data map[string][]byte, now time.Time) (s state, changed bool, err error) {
	if len(data) > 0 {
		if s, err = read(data); err == nil {
			a.damaged = time.Time{}
			return s.advance(now, a.cfg.Life, a.cfg.Overlap)
		}
	}
	damage := err
	switch held := a.held(); {
	case held.current != nil:
		s = held
	case damage == nil:
		s.current, err = newOwn(now, a.cfg.Life)
		return s, true, err
	case s.current != nil: // the signing authority is intact
	default:
		if a.damaged.IsZero() {
			a.damaged = time.Now()
		}
		if time.Since(a.damaged) < damagePause {
			return s, false, damage
		}
		if s, err = replacement(data, now, a.cfg.Life); err != nil {
			return s, false, err
		}
	}
	a.cfg.Log.Warn("the Secret of the certificate authority is missing or damaged, and is written again", "error",
		damage)
	s, _, err = s.advance(now, a.cfg.Life, a.cfg.Overlap)
	return s, true, err
}

func (a *Authority) held() state {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.state
}

func (a *Authority) take(s state, now time.Time) error {
	a.mu.Lock()
	cert, old := a.cert, a.state
	a.mu.Unlock()
	replaced := old.current != nil && !bytes.Equal(old.current.certPEM, s.current.certPEM)
	if cert == nil || replaced || a.due(a.issued) {
		var err error
		if cert, err = s.current.issue(a.cfg.Names, a.cfg.ID, now, a.cfg.Validity); err != nil {
			return fmt.Errorf("sign a certificate: %w", err)
		}
		a.issued = signed{time.Now(), now}
	}
	given := s.given(now, a.cfg.Overlap)
	a.mu.Lock()
	changed := a.given == nil || !bytes.Equal(a.given.certPEM, given.certPEM) || !bytes.Equal(old.bundle(), s.bundle())
	first := a.given == nil
	// A process with a slow clock may still hand out the current authority's key.
	if !first {
		for _, former := range []*signer{a.given, old.current} {
			a.retire(former, s, now)
		}
	}
	a.former = slices.DeleteFunc(a.former, func(f formerSigner) bool { return time.Now().After(f.until) })
	a.state, a.cert, a.given = s, cert, given
	clear(a.keys)
	a.mu.Unlock()
	if changed {
		a.cfg.Changed()
	}
	if first {
		close(a.ready)
	}
	return nil
}

// The caller holds a.mu.
func (a *Authority) retire(former *signer, s state, now time.Time) {
	for _, signs := range []*signer{s.current, s.next} {
		if signs != nil && bytes.Equal(former.certPEM, signs.certPEM) {
			return
		}
	}
	if slices.ContainsFunc(a.former, func(f formerSigner) bool { return bytes.Equal(f.certPEM, former.certPEM) }) {
		return
	}
	hold := a.cfg.Overlap
	if !s.rotation.ends.IsZero() {
		hold = min(hold, s.rotation.ends.Sub(now))
	}
	a.former = append([]formerSigner{{former, time.Now().Add(hold)}}, a.former...)
	a.former = a.former[:min(len(a.former), maxFormer)]
}

// Ready waits for the first certificate.
func (a *Authority) Ready(ctx context.Context) error {
	select {
	case <-a.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Bundle returns the certificates that proxies trust, in PEM; empty before Ready.
func (a *Authority) Bundle() []byte {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.state.current == nil {
		return nil
	}
	return a.state.bundle()
}

// Keys derives keys for a purpose, equal on all replicas. Proxies get the first key; replicas
// accept all. A replaced key is accepted for Config.Overlap. The next authority's key comes first
// after half of Overlap, when all replicas have it.
func (a *Authority) Keys(purpose string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.given == nil {
		return nil
	}
	if a.keys[purpose] == nil { // cached, because each call of the external picker reads keys
		a.keys[purpose] = []string{a.given.derive(purpose)}
		for _, s := range []*signer{a.state.current, a.state.next} {
			if s != nil && s != a.given {
				a.keys[purpose] = append(a.keys[purpose], s.derive(purpose))
			}
		}
		for _, f := range a.former {
			a.keys[purpose] = append(a.keys[purpose], f.derive(purpose))
		}
	}
	return a.keys[purpose]
}

// The monotonic clock stops while the machine sleeps. An administrator can set the wall clock
// (Config.Now).
type signed struct{ monotonic, wall time.Time }

// A certificate is due after two thirds of CertificateLife by either clock, or if Config.Now was
// set back.
func (a *Authority) due(s signed) bool {
	after, age := a.cfg.CertificateLife*2/3, a.cfg.Now().Round(0).Sub(s.wall.Round(0))
	return time.Since(s.monotonic) > after || age > after || age < -skew
}

// Certificate is for another process of this installation.
type Certificate struct {
	Pair
	signer []byte
	signed signed
}

// Certify signs a server and client certificate with a new key.
func (a *Authority) Certify(id *url.URL) (Certificate, error) {
	a.mu.RLock()
	current := a.state.current
	a.mu.RUnlock()
	if current == nil {
		return Certificate{}, errors.New("no authority yet")
	}
	now := a.cfg.Now()
	cert, err := current.issue(nil, id, now, a.cfg.Validity)
	if err != nil {
		return Certificate{}, fmt.Errorf("sign a certificate: %w", err)
	}
	pair, err := newPair(cert.Certificate[0], cert.PrivateKey)
	return Certificate{pair, current.certPEM, signed{time.Now(), now}}, err
}

// Current reports whether a result of Certify may stay in use.
func (a *Authority) Current(c Certificate) bool {
	a.mu.RLock()
	current := a.state.current
	a.mu.RUnlock()
	return current != nil && bytes.Equal(c.signer, current.certPEM) && !a.due(c.signed)
}

func (a *Authority) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.cert == nil {
		return nil, errors.New("no certificate yet")
	}
	return a.cert, nil
}
