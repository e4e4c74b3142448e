package jwks

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// hosts resolves its own names only.
type hosts map[string]string

func (h hosts) lookup(_ context.Context, _, host string) ([]netip.Addr, error) {
	if text, ok := h[host]; ok {
		return []netip.Addr{netip.MustParseAddr(text)}, nil
	}
	return nil, errors.New("no such host")
}

func fetcher(names hosts) *Fetcher {
	return New(Config{AnyHost: true, Lookup: names.lookup, Now: time.Now,
		Never: func(ip netip.Addr) string {
			if ip.IsLinkLocalUnicast() {
				return "a link-local address"
			}
			return ""
		}})
}

const keys = `{"keys": []}`

func serve(t *testing.T, tls bool, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	if tls {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(s.Close)
	return s
}

// fails expects that a fetch fails with the text want, without a part of the answer.
func fails(t *testing.T, what string, f *Fetcher, s Source, want string) {
	t.Helper()
	text, err := f.fetch(context.Background(), s)
	if err == nil {
		t.Errorf("%s: got %s, want an error with %q", what, text, want)
		return
	}
	if p := problemOf(err); !strings.Contains(p.Text, want) || p.Fix == "" || strings.Contains(p.Text, "secret") {
		t.Errorf("%s: got %q, want %q", what, p.Text, want)
	}
}

// Against any server, a fetch ends soon, with a problem that does not quote the answer.
func TestFetch_HostileServersAreBounded(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	other := serve(t, false, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, keys) })
	for what, c := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"silence": {func(http.ResponseWriter, *http.Request) { <-hang }, "has not answered within"},
		"a body without end": {func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			<-hang
		}, "has not answered within"},
		"a huge body": {func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, strings.Repeat("secret", maxBody))
		}, "is larger than 256 KiB"},
		"huge headers": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("x-secret", strings.Repeat("x", 1<<20))
		}, "header"},
		"another host": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL, http.StatusFound)
		}, "redirects to another host"},
		"a metadata server": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		}, "redirects to another host"},
		"redirects without end": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path+"x", http.StatusFound)
		}, "redirects more than 3 times"},
		"an error": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "secret", http.StatusInternalServerError)
		}, "answers with status 500"},
		"no HTTP": {func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				fmt.Fprint(conn, "SSH-2.0-secret\r\n")
				_ = conn.Close()
			}
		}, "is no HTTP response"},
	} {
		f := fetcher(nil)
		f.timeout = 2 * time.Second
		if c.want == "has not answered within" {
			f.timeout = 50 * time.Millisecond
		}
		fails(t, what, f, Source{URI: serve(t, false, c.handler).URL}, c.want)
	}
}

func TestFetch_FollowsRedirectsOfItsHost(t *testing.T) {
	s := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			http.Redirect(w, r, "/keys", http.StatusFound)
			return
		}
		fmt.Fprint(w, r.URL.Path, " ", r.Header.Get("authorization"))
	})
	got, err := fetcher(nil).fetch(context.Background(), Source{URI: s.URL + "/", Token: "t"})
	if err != nil || string(got) != "/keys Bearer t" {
		t.Errorf(`got %s %v, want "/keys Bearer t"`, got, err)
	}
}

// A fetch reaches only the operator's hosts, and no forbidden address.
func TestFetch_ForbiddenAddressesAreNotDialled(t *testing.T) {
	names := hosts{"idp.example": "192.0.2.1", "sneaky.example": "169.254.169.254", "api.example": "192.0.2.9",
		"mapped.example": "::ffff:169.254.169.254", "nat64.example": "64:ff9b::192.0.2.9"}
	api := fetcher(names)
	api.cfg.APIServers = []string{"192.0.2.9:443"}
	api.cfg.APIEndpoints = func(context.Context) ([]netip.AddrPort, error) {
		return []netip.AddrPort{netip.MustParseAddrPort("192.0.2.10:6443"),
			netip.MustParseAddrPort("10.96.0.1:443")}, nil
	}
	api.cfg.Forms = func(ip netip.Addr) []netip.Addr {
		if last := ip.As16(); ip.Is6() && last[0] == 0 {
			return []netip.Addr{ip, netip.AddrFrom4([4]byte(last[12:]))}
		}
		return []netip.Addr{ip}
	}
	some := fetcher(names)
	some.cfg.AnyHost, some.cfg.Hosts = false, []string{"IDP.example", "port.example:8443", "[2001:db8::1]:443"}
	for _, c := range []struct {
		f         *Fetcher
		uri, want string
	}{
		{api, "https://sneaky.example/", "it is a link-local address"},
		{api, "https://mapped.example/", "it is a link-local address"},
		{api, "https://169.254.169.254/", "it is a link-local address"},
		{api, "https://[fd00:ec2::254]/", "it is the address of a metadata server"},
		{api, "https://[::ffff:100.100.100.200]/", "it is the address of a metadata server"},
		{api, "https://api.example/", "it is the address of the API server"},
		{api, "https://10.96.0.1/", "it is the address of the API server"},
		{api, "https://192.0.2.10:6443/", "it is the address of the API server"},
		{api, "https://[64:ff9b::192.0.2.10]:6443/", "it is the address of the API server"},
		{api, "https://[64:ff9b::100.100.100.200]/", "it is the address of a metadata server"},
		{api, "https://nat64.example/", "it is the address of the API server"},
		{api, "http://idp.example/", "http is for loopback addresses"},
		{api, "https://unknown.example/", "no such host"},
		{api, "ftp://idp.example/", "it is no URL"},
		{api, "https://user:secret@idp.example/", "it is no URL"},
		{api, "/keys", "it is no URL"},
		{some, "https://other.example/", "host other.example is not in --fetch-hosts"},
		{some, "https://idp.example:444/", "host idp.example:444 is not in --fetch-hosts"},
		{some, "https://idp.example.evil.example/", "is not in --fetch-hosts"},
		{some, "https://port.example/", "is not in --fetch-hosts"},
		{some, "https://port.example:8443/", "no such host"},
		{some, "https://[2001:db8::2]/", "is not in --fetch-hosts"},
	} {
		fails(t, c.uri, c.f, Source{Issuer: "https://idp.example", URI: c.uri}, c.want)
	}
	for issuer, want := range map[string]bool{"https://api.example": true, "https://API.example:443/x": true,
		"https://idp.example": false, "https://api.example:444": false, "": false} {
		u, err := api.parse("https://api.example/keys")
		if err != nil {
			t.Fatal(err)
		}
		err = api.reachable(context.Background(), Source{Issuer: issuer}, u, netip.MustParseAddrPort("192.0.2.9:443"))
		if (err == nil) != want {
			t.Errorf("the API server's keys for issuer %q: %v, want reachable: %t", issuer, err, want)
		}
	}
}

func TestFetch_VerifiesTheServersCertificate(t *testing.T) {
	s := serve(t, true, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, keys) })
	fails(t, "the system's CAs", fetcher(nil), Source{URI: s.URL}, "certificate")
	ca := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	got, err := fetcher(nil).fetch(context.Background(), Source{URI: s.URL, CA: ca})
	if err != nil || string(got) != keys {
		t.Errorf("its CA: got %s %v, want the keys", got, err)
	}
	fails(t, "a name that is not in the certificate", fetcher(hosts{"idp.test": "127.0.0.1"}),
		Source{URI: strings.Replace(s.URL, "127.0.0.1", "idp.test", 1), CA: ca}, "certificate")
}

// The discovery document must name the issuer. The token is sent only to the issuer's host.
func TestFetch_DiscoversTheKeysOfTheIssuer(t *testing.T) {
	far := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "far %q", r.Header.Get("authorization"))
	})
	document := ""
	s := serve(t, false, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/realm/.well-known/openid-configuration":
			fmt.Fprint(w, document)
		default:
			fmt.Fprintf(w, "%s %q", r.URL.Path, r.Header.Get("authorization"))
		}
	})
	issuer := s.URL + "/realm"
	for _, c := range []struct{ issuer, document, want string }{
		{issuer, `{"issuer": "%s", "jwks_uri": "%s/keys"}`, `/realm/keys "Bearer t"`},
		{issuer + "/", `{"issuer": "%s", "jwks_uri": "%skeys"}`, `/realm/keys "Bearer t"`},
		{issuer, `{"issuer": "%s", "jwks_uri": "` + far.URL + `"}%.0s`, `far ""`},
	} {
		document = fmt.Sprintf(c.document, c.issuer, c.issuer)
		got, err := fetcher(nil).fetch(context.Background(), Source{Issuer: c.issuer, Token: "t"})
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %s %v, want %s", document, got, err, c.want)
		}
	}
	for text, want := range map[string]string{
		`{"issuer": "https://evil.example", "jwks_uri": "https://evil.example/keys"}`: "is of another issuer",
		`{"issuer": "` + issuer + `"}`:                                            "it is no URL",
		`{"issuer": "` + issuer + `", "jwks_uri": "file:///x"}`:                   "it is no URL",
		`{"issuer": "` + issuer + `", "jwks_uri": "http://169.254.169.254/keys"}`: "it is a link-local address",
		`secret`: "is no JSON object",
	} {
		document = text
		fails(t, text, fetcher(nil), Source{Issuer: issuer}, want)
	}
}
