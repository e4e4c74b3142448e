package app

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestAdmin_WebPageOfAnotherSiteIsDenied(t *testing.T) {
	pages := sameOrigin(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, tt := range []struct {
		name, host, origin, site string
		want                     int
	}{
		{"curl by address", "127.0.0.1:9091", "", "", 200},
		{"curl by name", "localhost:9091", "", "", 200},
		{"a forwarded port", "LOCALHOST:8080", "", "", 200},
		{"IPv6", "[::1]:9091", "", "", 200},
		{"IPv6 at port 80", "[::1]", "", "", 200},
		{"port 80", "localhost", "", "", 200},
		{"typed into the browser", "localhost:9091", "", "none", 200},
		{"a script of the page itself", "localhost:9091", "http://localhost:9091", "same-origin", 200},
		{"DNS rebinding", "attacker.example:9091", "", "", 403},
		{"DNS rebinding with its origin", "attacker.example:9091", "http://attacker.example:9091", "same-origin", 403},
		{"a name below localhost", "localhost.attacker.example", "", "", 403},
		{"a name that ends with an address", "127.0.0.1.attacker.example:9091", "", "", 403},
		{"no host", "", "", "", 403},
		{"a script of another site", "127.0.0.1:9091", "https://attacker.example", "cross-site", 403},
		{"a script of another port", "127.0.0.1:9091", "http://127.0.0.1:8080", "same-site", 403},
		{"an image on another site", "127.0.0.1:9091", "", "cross-site", 403},
		{"a sandboxed frame", "127.0.0.1:9091", "null", "", 403},
	} {
		r := httptest.NewRequest(http.MethodGet, "/status", nil)
		r.Host = tt.host
		for key, value := range map[string]string{"Origin": tt.origin, "Sec-Fetch-Site": tt.site} {
			if value != "" {
				r.Header.Set(key, value)
			}
		}
		w := httptest.NewRecorder()
		if pages.ServeHTTP(w, r); w.Code != tt.want {
			t.Errorf("%s: status %d, want %d", tt.name, w.Code, tt.want)
		}
	}
}
