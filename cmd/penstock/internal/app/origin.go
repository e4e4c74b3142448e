package app

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// sameOrigin denies requests from web pages of other sites. By DNS rebinding, a site's name may
// resolve to 127.0.0.1, so that its page can read Penstock's pages.
func sameOrigin(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site"); {
		case !fixedHost(r.Host):
			http.Error(w, "the Host header names neither localhost nor an IP address: use http://localhost:PORT",
				http.StatusForbidden)
		case origin != "" && origin != "http://"+r.Host, site != "" && site != "same-origin" && site != "none":
			http.Error(w, "a page of another site may not read this one: open its address in the browser",
				http.StatusForbidden)
		default:
			h.ServeHTTP(w, r)
		}
	})
}

func fixedHost(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	_, err = netip.ParseAddr(name)
	return err == nil || strings.EqualFold(name, "localhost")
}
