package jwks

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// fetchTimeout bounds a fetch, including discovery.
	fetchTimeout       = 10 * time.Second
	maxBody, maxHeader = 256 << 10, 16 << 10 // in bytes
	maxRedirects       = 3
	maxText            = 300 // in bytes, for Problem.Text
)

// Problem is why a set could not be fetched (Text), and what the policy's author can do (Fix).
type Problem struct{ Text, Fix string }

// Error returns p.Text.
func (p *Problem) Error() string { return p.Text }

// problemOf returns the Problem that an error wraps, or a new Problem with the error's text.
func problemOf(err error) *Problem {
	var p *Problem
	if errors.As(err, &p) {
		return p
	}
	var wrapped *url.Error // its text would repeat the URL
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	text := err.Error()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		text = fmt.Sprintf("the server has not answered within %s", fetchTimeout)
	case strings.Contains(text, "malformed"): // net/http's text would quote the answer
		text = "the answer is no HTTP response"
	case len(text) > maxText: // such as a list of the names of a certificate
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return &Problem{text, "see that the server answers, and that the URL is right"}
}

func (f *Fetcher) fetch(ctx context.Context, s Source) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	first, discovery := s.start()
	u, err := f.parse(first)
	if err != nil {
		return nil, err
	}
	text, err := f.get(ctx, s, u, s.Token)
	if err != nil || !discovery {
		return text, err
	}
	var found struct {
		Issuer string `json:"issuer"`
		JWKS   string `json:"jwks_uri"`
	}
	const fix = "write the issuer letter for letter as its server states it, or jwks.uri"
	switch err := json.Unmarshal(text, &found); {
	case err != nil:
		return nil, &Problem{fmt.Sprintf("the answer of %s is no JSON object", first), fix}
	case found.Issuer != s.Issuer: // OpenID Connect Discovery 1.0, section 4.3
		return nil, &Problem{fmt.Sprintf("the answer of %s is of another issuer", first), fix}
	}
	next, err := f.parse(found.JWKS)
	if err != nil {
		return nil, fmt.Errorf("jwks_uri of %s: %w", first, err)
	}
	token := s.Token
	if endpointOf(next) != endpointOf(u) {
		token = ""
	}
	return f.get(ctx, s, next, token)
}

func (f *Fetcher) parse(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return nil, &Problem{"it is no URL that begins with https:// and has no password", "write such a URL"}
	}
	return u, f.allowed(u)
}

func (f *Fetcher) get(ctx context.Context, s Source, u *url.URL, token string) ([]byte, error) {
	roots, err := rootsOf(s.CA)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{ // without a proxy, which would resolve the host itself
		DialContext:       f.dialer(s, u),
		TLSClientConfig:   &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxHeader,
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: func(to *http.Request, via []*http.Request) error {
		switch {
		case to.URL.Scheme != u.Scheme || endpointOf(to.URL) != endpointOf(u):
			return &Problem{fmt.Sprintf("%s redirects to another host", u.Host),
				"write the URL to which it redirects"}
		case len(via) > maxRedirects:
			return fmt.Errorf("%s redirects more than %d times", u.Host, maxRedirects)
		}
		return nil
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json, application/jwk-set+json")
	request.Header.Set("User-Agent", "penstock")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers with status %d", u.Host, response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = fmt.Errorf("the answer of %s is larger than %d KiB", u.Host, maxBody>>10)
	}
	return body, err
}

func rootsOf(ca string) (*x509.CertPool, error) {
	if ca == "" {
		return nil, nil // the system's CAs
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(ca)) {
		return nil, &Problem{"caCertificateRefs have no certificate", "write CAs in PEM to ca.crt"}
	}
	return roots, nil
}
