package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	maxRedirects = 5
	maxAttempts  = 6 // consecutive attempts without progress
	maxBackoff   = 30 * time.Second
	// longest bounds the time of one response, because a registry may send one byte now and then.
	longest = 24 * time.Hour
)

func newClient(stall time.Duration) *http.Client {
	dialer := &net.Dialer{Timeout: stall, KeepAlive: 15 * time.Second}
	return &http.Client{
		CheckRedirect: checkRedirect,
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSHandshakeTimeout: stall,
			ResponseHeaderTimeout: stall, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 256 << 10,
			DisableCompression: true, ForceAttemptHTTP2: true,
		},
	}
}

// checkRedirect bounds the number of redirects, and rejects redirects from HTTPS to HTTP. It
// removes the credential from a request to another host, and from all later requests.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	origin := via[0].URL
	if origin.Scheme == "https" && req.URL.Scheme != "https" {
		return errors.New("it redirects from https to http")
	}
	for _, r := range append(via[1:len(via):len(via)], req) {
		if r.URL.Host != origin.Host || r.URL.Scheme != origin.Scheme {
			req.Header.Del("Authorization")
		}
	}
	req.Header.Del("Referer")
	return nil
}

// answer is a response. Reading its body fails if no byte arrives for Config.Stall.
type answer struct {
	*http.Response
	watch  *time.Timer
	stall  time.Duration
	cancel context.CancelCauseFunc
	ctx    context.Context
}

func (a *answer) Read(p []byte) (int, error) {
	a.watch.Reset(a.stall)
	n, err := a.Body.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && context.Cause(a.ctx) != nil {
		err = context.Cause(a.ctx)
	}
	return n, err
}

func (a *answer) close() {
	a.watch.Stop()
	_ = a.Body.Close()
	a.cancel(nil)
}

func (f *Fetcher) get(ctx context.Context, s Source, address string, offset int64) (*answer, error) {
	if err := checkURL(s); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	stalled := fmt.Errorf("%w: nothing arrived for %s", errUnreachable, f.cfg.Stall)
	watch := time.AfterFunc(2*f.cfg.Stall, func() { cancel(stalled) })
	deadline, stop := context.WithTimeoutCause(ctx, longest, errUnreachable)
	req, err := http.NewRequestWithContext(deadline, http.MethodGet, address, nil)
	if err != nil {
		stop()
		cancel(err)
		return nil, wrong("registry", "correct its url", "%q is no address", s.URL)
	}
	req.Header.Set("Accept-Encoding", "identity")
	req.Header.Set("User-Agent", "penstock")
	if s.Token != "" {
		req.Header.Set("Authorization", "Bearer "+s.Token)
	}
	if offset > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	resp, err := f.client.Do(req)
	if err != nil {
		watch.Stop()
		cause := context.Cause(ctx)
		stop()
		cancel(nil)
		if cause != nil {
			return nil, cause
		}
		var u *url.Error // its text has the URL of a redirect, which may contain a signature
		if errors.As(err, &u) {
			err = u.Err
		}
		return nil, fmt.Errorf("%w: %w", errUnreachable, err)
	}
	done := func(cause error) { stop(); cancel(cause) }
	return &answer{Response: resp, watch: watch, stall: f.cfg.Stall, cancel: done, ctx: ctx}, nil
}

func checkURL(s Source) error {
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return wrong("registry", "write https://HOST", "the registry's url is no address of a server")
	}
	if s.Token != "" && u.Scheme == "http" {
		if ip := net.ParseIP(u.Hostname()); u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return wrong("registry", "write https, or remove the credential",
				"a credential for %s would be sent without encryption", u.Host)
		}
	}
	return nil
}

type statusError struct{ status int }

func (e *statusError) Error() string {
	return fmt.Sprintf("the registry answers %d %s", e.status, strings.ToLower(http.StatusText(e.status)))
}

// attempts calls do until it succeeds, or until maxAttempts consecutive attempts made no progress.
// do reports whether it made progress. attempts does not repeat after an *Error or a
// *mismatchError.
func (f *Fetcher) attempts(ctx context.Context, do func() (moved bool, err error)) error {
	for failures, wait := 0, f.cfg.Backoff; ; {
		moved, err := do()
		if err == nil {
			return nil
		}
		var final *Error
		var mismatch *mismatchError
		if errors.As(err, &final) || errors.As(err, &mismatch) {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if failures++; moved {
			failures, wait = 1, f.cfg.Backoff
		}
		if failures >= maxAttempts {
			return &Error{Field: "registry", Problem: err.Error(), unreachable: true,
				Fix: "check the registry and the way to it; what has arrived is kept"}
		}
		timer := time.NewTimer(wait)
		wait = min(2*wait, maxBackoff)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}
