package identity

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// spiffe follows SPIFFE-ID, section 2, and the Kubernetes rules for names.
var spiffe = regexp.MustCompile(`^spiffe://([a-z0-9._-]+)/ns/([A-Za-z0-9._-]+)/sa/([A-Za-z0-9._-]+)$`)

func FuzzSPIFFE_NamesOnlyAccountsOfItsTrustDomain(f *testing.F) {
	for _, s := range []string{
		"spiffe://cluster.local/ns/a/sa/b", "spiffe://cluster.local/ns/a/sa/b/", "spiffe://cluster.local/ns/a/sa/..",
		"spiffe://cluster.local/ns/a%2fb/sa/c", "SPIFFE://cluster.local/ns/a/sa/b",
		"spiffe://Cluster.local/ns/a/sa/b", "spiffe://cluster.local:80/ns/a/sa/b",
		"spiffe://user@cluster.local/ns/a/sa/b", "spiffe://cluster.local/ns/a/sa/b?c",
		"spiffe://cluster.local/ns/a/sa/b#c",
		"spiffe://cluster.local/ns//sa/b", "spiffe:cluster.local/ns/a/sa/b", "spiffe:///ns/a/sa/b",
		"https://cluster.local/ns/a/sa/b", "spiffe://cluster.local/ns/a/sa/%62", "",
	} {
		f.Add(s, "cluster.local", false)
		f.Add(s, "", false)
	}
	f.Add("spiffe://cluster.local/ns/a/sa/b", "cluster.local", true)
	f.Fuzz(func(t *testing.T, id, domain string, twice bool) {
		u, err := url.Parse(id)
		if err != nil {
			return // crypto/x509 rejects such a certificate
		}
		cert := &x509.Certificate{URIs: []*url.URL{u}, DNSNames: []string{"a.example.com"}}
		if twice {
			cert.URIs = append(cert.URIs, u)
		}
		p := fromCertificate(cert, domain)
		if len(p.Names) != 1+len(cert.URIs) {
			t.Errorf("%d names, want %d", len(p.Names), 1+len(cert.URIs))
		}
		namespace, account := "", ""
		if m := spiffe.FindStringSubmatch(u.String()); m != nil && !twice && domain != "" && m[1] == domain &&
			len(u.String()) <= 2048 && !dots(m[2]) && !dots(m[3]) {
			namespace, account = m[2], m[3]
		}
		if p.Namespace != namespace || p.Account != account {
			t.Errorf("%q in %q: %q/%q, want %q/%q", id, domain, p.Namespace, p.Account, namespace, account)
		}
	})
}

func dots(part string) bool { return part == "." || part == ".." }

// A token must be reviewed only if it is a JWT with Penstock's audience. An accepted token must
// expire as its claims state, even if the wall clock is wrong.
func FuzzToken_ReviewedOnlyForOurAudience(f *testing.F) {
	const wall = 1_900_000_000
	for _, s := range []string{
		`{"aud":["penstock.dev"],"exp":2000000000}`, `{"aud":"penstock.dev"}`,
		`{"aud":["other","penstock.dev"],"exp":2e9,"iat":1.9e9}`, `{"aud":["other"]}`, `{"AUD":["penstock.dev"]}`,
		`{"aud":null}`, `{"aud":[1]}`,
		`{"aud":["penstock.dev"],"exp":-1}`, `{"aud":["penstock.dev"],"exp":9223372036854775807}`,
		`{"aud":["penstock.dev"],"exp":1e300}`, `{"aud":["penstock.dev"],"exp":"1"}`,
		`{"aud":"penstock.dev","EXP":1,"exp":2000000000}`,
		`{"aud":["penstock.dev"],"exp":1.5}`, `{"aud":"other","aud":"penstock.dev"}`,
		`{"aud":"penstock.dev","exp":1000000000000,"iat":1}`, `{"aud":"penstock.dev","exp":1000,"iat":2000}`, `[]`,
		`null`, `{}`, ``,
	} {
		f.Add("e30."+base64.RawURLEncoding.EncodeToString([]byte(s))+".sig", []byte(s), int64(wall))
		f.Add("", []byte(s), int64(2*wall))
	}
	f.Add("a.b.c.d", []byte(`{"aud":"penstock.dev","exp":2000000000,"iat":1999990000}`), int64(wall))
	now := time.Unix(5000, 0)
	f.Fuzz(func(t *testing.T, raw string, payload []byte, wall int64) {
		wall = max(0, min(wall, latest))
		for _, token := range []string{raw, "e30." + base64.RawURLEncoding.EncodeToString(payload) + ".sig"} {
			audiences, expires, issued := reference(token)
			if plausible(token) != slices.Contains(audiences, Audience) {
				t.Errorf("%q: reviewed: %v, audiences %q; want reviewed if and only if %s is one",
					token, plausible(token), audiences, Audience)
			}
			if !slices.Contains(audiences, Audience) {
				continue
			}
			left, life := expires-wall, expires-issued
			if issued == 0 {
				life = max(left, int64(trusted/time.Second))
			}
			if left <= 0 || left > life {
				left = life
			}
			want := time.Time{}
			if expires > 0 {
				const longest = math.MaxInt64 / int64(time.Second)
				switch {
				case left > longest:
					want = now.Add(math.MaxInt64)
				case left < -longest:
					want = now.Add(math.MinInt64)
				default:
					want = now.Add(time.Duration(left) * time.Second)
				}
			}
			if got := expiry(token, now, time.Unix(wall, 0)); !got.Equal(want) {
				t.Errorf("%q: until %v, want %v", token, got, want)
			}
		}
	})
}

// reference parses a JWT (RFC 7519). Times are Unix seconds; 0 means missing or out of range.
func reference(token string) (audiences []string, expires, issued int64) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, 0, 0
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || !json.Valid(raw) {
		return nil, 0, 0
	}
	var claims map[string]any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&claims) != nil {
		return nil, 0, 0
	}
	switch a := claims["aud"].(type) {
	case string:
		audiences = []string{a}
	case []any:
		for _, v := range a {
			s, ok := v.(string)
			if !ok && v != nil {
				return nil, 0, 0
			}
			audiences = append(audiences, s)
		}
	}
	for name, out := range map[string]*int64{"exp": &expires, "iat": &issued} {
		if claims[name] == nil {
			continue
		}
		number, ok := claims[name].(json.Number)
		seconds, err := number.Float64()
		if !ok || err != nil {
			return nil, 0, 0
		}
		if seconds >= 1 && seconds < latest {
			*out = int64(seconds)
		}
	}
	return audiences, expires, issued
}
