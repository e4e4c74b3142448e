package hub

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/transport"

	"github.com/penstock-project/penstock/discovery/filesystem"
)

// ClientConfig returns the client configuration for a context of a kubeconfig, and the context's
// namespace. loaded comes from Kubeconfig. Clients follow changes of the files that loaded names.
func ClientConfig(disk *filesystem.Disk, loaded *api.Config, name string) (out *rest.Config, namespace string,
	err error) {
	loaded = loaded.DeepCopy()
	f := &followed{disk: disk}
	var token string
	if c := loaded.Contexts[name]; c != nil {
		if token, err = f.take(loaded.Clusters[c.Cluster], loaded.AuthInfos[c.AuthInfo]); err != nil {
			return nil, "", err
		}
	}
	load := clientcmd.NewNonInteractiveClientConfig(*loaded, name, &clientcmd.ConfigOverrides{}, nil)
	if out, err = load.ClientConfig(); err != nil {
		return nil, "", err
	}
	if namespace, _, err = load.Namespace(); err != nil {
		return nil, "", err
	}
	if !rest.IsConfigTransportTLS(*out) { // without TLS client-go sends no credentials
		return out, namespace, nil
	}
	if f.ca != "" || f.cert != "" {
		out.Wrap(f.transport(out))
	}
	if token != "" {
		file := &tokenFile{disk: disk, path: token}
		out.Wrap(func(rt http.RoundTripper) http.RoundTripper { return &bearer{file, rt} })
	}
	return out, namespace, nil
}

type followed struct {
	disk          *filesystem.Disk
	ca, cert, key string

	mu   sync.Mutex
	pair *tls.Certificate
}

// take replaces the file names in c and u, which may be nil, by the files' contents, or records
// them in f, which reads the files again later. token is the name of a token file.
func (f *followed) take(c *api.Cluster, u *api.AuthInfo) (token string, err error) {
	if c != nil && len(c.CertificateAuthorityData) == 0 && c.CertificateAuthority != "" {
		f.ca, c.CertificateAuthority = c.CertificateAuthority, ""
		if c.CertificateAuthorityData, err = f.authorities(); err != nil {
			return "", err
		}
	}
	if u == nil {
		return "", nil
	}
	if u.TokenFile != "" {
		token, u.TokenFile, u.Token = u.TokenFile, "", ""
	}
	cert, key := u.ClientCertificate, u.ClientKey
	u.ClientCertificate, u.ClientKey = "", ""
	if cert != "" && key != "" && len(u.ClientCertificateData) == 0 && len(u.ClientKeyData) == 0 {
		f.cert, f.key = cert, key
		return token, nil
	}
	for path, data := range map[string]*[]byte{cert: &u.ClientCertificateData, key: &u.ClientKeyData} {
		if path != "" && len(*data) == 0 {
			if *data, err = f.disk.Read(path); err != nil {
				return "", err
			}
		}
	}
	return token, nil
}

// authorities rejects a file without certificates, because client-go would then trust the system's.
func (f *followed) authorities() ([]byte, error) {
	raw, err := f.disk.Read(f.ca)
	if err != nil {
		return nil, err
	}
	if !x509.NewCertPool().AppendCertsFromPEM(raw) {
		return nil, fmt.Errorf("%s: it has no PEM certificate", f.ca)
	}
	return raw, nil
}

// present returns the client certificate; the previous one while its files are invalid.
func (f *followed) present() (*tls.Certificate, error) {
	pair, err := f.disk.KeyPair(f.cert, f.key)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.pair = pair
	}
	if f.pair == nil {
		return nil, err
	}
	return f.pair, nil
}

func (f *followed) transport(cfg *rest.Config) transport.WrapperFunc {
	with := transport.Config{
		Proxy: cfg.Proxy, DisableCompression: cfg.DisableCompression,
		TLS: transport.TLSConfig{
			CAData: cfg.CAData, CertData: cfg.CertData, KeyData: cfg.KeyData, Insecure: cfg.Insecure,
			ServerName: cfg.ServerName, NextProtos: cfg.NextProtos,
		},
	}
	if f.cert != "" { // client-go keeps a transport for each holder, so there is one holder for each configuration
		with.TLS.GetCertHolder = &transport.GetCertHolder{GetCert: f.present}
	}
	return func(http.RoundTripper) http.RoundTripper { return &connection{files: f, with: with, read: time.Now()} }
}

// authorityPeriod is how long CA certificates are used before their file is read again, as in
// client-go.
const authorityPeriod = 5 * time.Minute

type connection struct {
	files *followed

	mu   sync.Mutex
	with transport.Config
	read time.Time
	rt   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (c *connection) RoundTrip(req *http.Request) (*http.Response, error) {
	rt, err := c.current()
	if err != nil {
		return nil, errors.Join(err, closeBody(req))
	}
	return rt.RoundTrip(req)
}

// current returns the transport with the CA certificates of the file; the previous ones while the
// file is invalid.
func (c *connection) current() (rt http.RoundTripper, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.files.ca != "" && time.Since(c.read) > authorityPeriod {
		c.read = time.Now()
		if raw, err := c.files.authorities(); err == nil && !bytes.Equal(raw, c.with.TLS.CAData) {
			if c.rt != nil {
				utilnet.CloseIdleConnectionsFor(c.rt)
			}
			c.with.TLS.CAData, c.rt = raw, nil
		}
	}
	if c.rt == nil {
		with := c.with
		if c.rt, err = transport.New(&with); err != nil {
			return nil, err
		}
	}
	return c.rt, nil
}

func closeBody(req *http.Request) error {
	if req.Body == nil {
		return nil
	}
	return req.Body.Close()
}

// tokenPeriod is how long a token is used before its file is read again, as in client-go.
const tokenPeriod = 50 * time.Second

type tokenFile struct {
	disk *filesystem.Disk
	path string

	mu    sync.Mutex
	token string
	read  time.Time // zero: read the file at the next use
}

// current returns the token; the previous one while its file cannot be read.
func (f *tokenFile) current() (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.token != "" && time.Since(f.read) < tokenPeriod {
		return f.token, nil
	}
	raw, err := f.disk.Read(f.path)
	if raw = bytes.TrimSpace(raw); err == nil && len(raw) == 0 {
		err = fmt.Errorf("%s: it has no token", f.path)
	}
	if err != nil && f.token == "" {
		return "", err
	}
	if f.read = time.Now(); err == nil {
		f.token = string(raw)
	}
	return f.token, nil
}

// unauthorized makes the next use read the file, unless it was read after the denied request began.
func (f *tokenFile) unauthorized(began time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.read.Before(began) {
		f.read = time.Time{}
	}
}

type bearer struct {
	file *tokenFile
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (b *bearer) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Header.Get("Authorization") != "" {
		return b.next.RoundTrip(req)
	}
	token, err := b.file.current()
	if err != nil {
		return nil, errors.Join(err, closeBody(req))
	}
	began := time.Now()
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := b.next.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusUnauthorized {
		b.file.unauthorized(began)
	}
	return resp, err
}

// WrappedRoundTripper implements net.RoundTripperWrapper of apimachinery.
func (b *bearer) WrappedRoundTripper() http.RoundTripper { return b.next }
