package authority

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"sync"
	"time"
)

// ErrChanged is the error of Secrets.Write if the Secret is not in the expected version.
var ErrChanged = errors.New("the Secret has changed meanwhile")

// Secrets stores the authority. *apply.Secret implements it.
type Secrets interface {
	// Read returns the data and its version; no data and an empty version if there is no Secret.
	Read(ctx context.Context) (data map[string][]byte, version string, err error)
	// Write replaces the data of a version, or creates the Secret if version is empty. It fails
	// with ErrChanged if the Secret is not in that version.
	Write(ctx context.Context, data map[string][]byte, version string) error
}

// Config configures an Authority.
type Config struct {
	Secrets Secrets // required
	// Names are the DNS names of the control plane. At least one.
	Names []string
	// ID is the SPIFFE ID of the control plane, for connections to other clusters; nil: its
	// certificates have none.
	ID *url.URL
	// Changed is called when Bundle, or the first of Keys, has changed, from Run's goroutine; the
	// first time before Ready. Optional.
	Changed func()
	// Life is how long an authority is in use (default: one year); CertificateLife, how long a
	// certificate is (default: one day). Both are valid for longer: see tolerance. Overlap is how
	// long an authority is in the bundle before it signs (default: one day).
	Life, CertificateLife, Overlap time.Duration
	// Validity is how long a certificate is valid after it is signed, and before, for clocks that
	// are behind; longer than CertificateLife. 0: as long as its authority.
	Validity time.Duration
	// Interval between reads of the Secret. Default: 10 s, less load than the renewal of the Lease.
	Interval time.Duration
	// Now is the clock; time.Now if nil.
	Now func() time.Time
	Log *slog.Logger
}

// Authority is the authority of one installation. It is safe for concurrent use.
type Authority struct {
	cfg Config

	mu     sync.RWMutex
	state  state
	cert   *tls.Certificate
	given  *signer             // the authority whose keys are handed out
	former []formerSigner      // whose keys were handed out, and that are not part of the state any more
	keys   map[string][]string // by purpose
	ready  chan struct{}       // closed when there is a certificate

	// Of Run's goroutine, monotonic.
	issued  signed    // when cert was signed
	damaged time.Time // when the Secret was first found to be damaged; zero: it is intact
}

// formerSigner is an authority that was replaced, perhaps at once. Proxies may still have its keys.
type formerSigner struct {
	*signer
	until time.Time // monotonic
}

// maxFormer bounds the former signers whose keys count.
const maxFormer = 4

// defaultLife is Config.Life if that is not set.
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
				a.cfg.Log.Warn("certificate authority not up to date; retrying", "error", err)
			}
			wait = min(wait, time.Second)
		}
		timer.Reset(wait)
	}
}

// renew brings the Secret and the certificate up to date.
func (a *Authority) renew(ctx context.Context) error {
	data, version, err := a.cfg.Secrets.Read(ctx)
	if err != nil {
		err = fmt.Errorf("read the authority: %w", err)
		if held := a.held(); held.current != nil { // the API server may be away for days
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

// damagePause is how long a process that has never had the authority leaves a damaged Secret to
// those that have.
const damagePause = 20 * time.Second

// next returns the state that follows from the Secret's data, and whether it must be written. A
// Secret that is gone or damaged gets the state that this process has, so that proxies and
// processes go on trusting each other.
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
	case s.current != nil: // what is damaged was not in use
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

// held is the state that this process has; zero before the first.
func (a *Authority) held() state {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.state
}

// take adopts a state, and renews the certificate if that is due.
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
	// Proxies may have the key of either: a process whose clock is behind hands out current's for
	// longer.
	if !first {
		for _, was := range []*signer{a.given, old.current} {
			a.retire(was, s, now)
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

// retire has the keys of a signer count for a while if it signs no more. Called with mu held.
func (a *Authority) retire(was *signer, is state, now time.Time) {
	for _, s := range []*signer{is.current, is.next} {
		if s != nil && bytes.Equal(was.certPEM, s.certPEM) {
			return
		}
	}
	if slices.ContainsFunc(a.former, func(f formerSigner) bool { return bytes.Equal(f.certPEM, was.certPEM) }) {
		return
	}
	hold := a.cfg.Overlap
	if !is.rotation.ends.IsZero() { // the key may be known to others
		hold = min(hold, is.rotation.ends.Sub(now))
	}
	a.former = append([]formerSigner{{was, time.Now().Add(hold)}}, a.former...)
	a.former = a.former[:min(len(a.former), maxFormer)]
}

// Ready returns when there is a certificate, or with ctx's error.
func (a *Authority) Ready(ctx context.Context) error {
	select {
	case <-a.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Bundle is the certificates that proxies trust, in PEM; empty before Ready.
func (a *Authority) Bundle() []byte {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.state.current == nil {
		return nil
	}
	return a.state.bundle()
}

// Keys are secrets that all replicas derive from the authority for a purpose. The first one is
// handed out, all are accepted. Empty before Ready. A key that is replaced at once is accepted for
// Config.Overlap. The next authority's key is handed out once all replicas have long had it, early
// enough for all proxies to have it when that authority takes over.
func (a *Authority) Keys(purpose string) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.given == nil {
		return nil
	}
	if a.keys[purpose] == nil { // read with each pick, changed once a minute at most
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

// signed is when a certificate was signed, by the monotonic clock, which stands still while the
// machine sleeps, and by Config.Now, which may be set.
type signed struct{ monotonic, wall time.Time }

// due reports whether a certificate is replaced: after two thirds of CertificateLife by either
// clock, and if Config.Now is set back.
func (a *Authority) due(s signed) bool {
	after, age := a.cfg.CertificateLife*2/3, a.cfg.Now().Round(0).Sub(s.wall.Round(0))
	return time.Since(s.monotonic) > after || age > after || age < -skew
}

// Certificate is a certificate for another process of this installation.
type Certificate struct {
	Pair
	signer []byte
	signed signed
}

// Certify signs a certificate with a new key, by the authority that signs now, for servers and for
// clients. Current reports when the process needs another one.
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
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		return Certificate{}, err
	}
	return Certificate{Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}),
	}, current.certPEM, signed{time.Now(), now}}, nil
}

// Current reports whether a process goes on with a certificate of Certify: the authority that
// signed it signs still, and the certificate is not due to be replaced.
func (a *Authority) Current(c Certificate) bool {
	a.mu.RLock()
	current := a.state.current
	a.mu.RUnlock()
	return current != nil && bytes.Equal(c.signer, current.certPEM) && !a.due(c.signed)
}

// GetCertificate is for tls.Config.
func (a *Authority) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.cert == nil {
		return nil, errors.New("no certificate yet")
	}
	return a.cert, nil
}
