package features

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// Servers, gateways and pickers of other clusters do not receive the client's key. Other headers
// arrive.
func TestAccessKeys_NoCredentialCrossesToAnotherCluster(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	east, west := s.cluster("east"), s.cluster("west")
	s.restrict(map[string]string{"all": "owner: all"})
	s.up("accessclusters.yaml")
	const key = "sk-secret-all"
	credentials := map[string][]string{
		"authorization": {"authorization", "Bearer " + key}, "x-api-key": {"x-api-key", key},
		"api-key":     {"api-key", key},
		"two of them": {"authorization", "bearer " + key, "X-Api-Key", key},
	}
	for _, path := range []string{"/east", "/west", "/both", "/spills"} {
		s.becomes(path, "200", func() string { return s.outcome(path, credentials["x-api-key"]...) })
		for name, headers := range credentials {
			for _, c := range []*cluster{east, west} {
				c.set(func(c *cluster) { c.headers, c.pickHeaders = nil, nil })
			}
			const rounds = 8 // enough to reach both clusters of an import
			for range rounds {
				s.becomes(path+" with "+name, "200", func() string { // may first get 503
					return s.outcome(path, append(headers, "x-test", "arrives")...)
				})
			}
			served := 0
			for _, c := range []*cluster{east, west} {
				c.set(func(c *cluster) {
					served += len(c.headers)
					for _, h := range c.headers {
						if problem := crossed(h, key); problem != "" {
							t.Errorf("%s with %s: %s receives %s", path, name, c.name, problem)
						}
					}
					for _, h := range c.pickHeaders {
						if strings.Contains(h, key) {
							t.Errorf("%s with %s: the picker of %s receives the key", path, name, c.name)
						}
					}
				})
			}
			if served != rounds {
				t.Errorf("%s with %s: the clusters have served %d requests, want %d", path, name, served, rounds)
			}
		}
	}
	if got := s.outcome("/both"); got != "401 invalid_api_key" {
		t.Error("without a key:", got)
	}
}

// crossed returns a header that must not reach another cluster; "": no such header.
func crossed(received http.Header, key string) string {
	if received.Get("x-test") != "arrives" {
		return fmt.Sprint("no x-test in ", received)
	}
	for name, values := range received {
		switch text := strings.Join(values, ","); {
		case strings.Contains(text, key):
			return "the key in " + name
		case strings.HasPrefix(strings.ToLower(name), "x-penstock-"):
			return name + ": " + text
		}
	}
	return ""
}
