package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

func TestFetch_EndpointsOfTheAPIServerAreRead(t *testing.T) {
	var status atomic.Int32
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if code := int(status.Load()); code != 0 {
			w.WriteHeader(code)
			return
		}
		switch r.URL.Path + "?" + r.URL.Query().Encode() {
		case "/api/v1/namespaces/default/services?fieldSelector=metadata.name%3Dkubernetes":
			fmt.Fprint(w, `{"items": [{"spec": {"clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1", "fd00::1"],
				"ports": [{"port": 443}]}}]}`)
		case "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io%2Fservice-name" +
			"%3Dkubernetes":
			fmt.Fprint(w, `{"items": [{"ports": [{"port": 6443}], "endpoints": [{"addresses": ["192.0.2.10"]}]}]}`)
		default:
			t.Errorf("unexpected request %s", r.URL)
		}
	}))
	defer server.Close()
	now := time.Unix(0, 0)
	a := &apiEndpoints{rest: &rest.Config{Host: server.URL}, now: func() time.Time { return now }}
	status.Store(http.StatusServiceUnavailable)
	if got, err := a.Get(t.Context()); err == nil {
		t.Errorf("without an answer: got %v and no error, want one", got)
	}
	status.Store(0)
	has := func(what string, want bool) {
		t.Helper()
		got, err := a.Get(t.Context())
		if err != nil {
			t.Fatal(what, err)
		}
		for _, address := range []string{"10.96.0.1:443", "[fd00::1]:443", "192.0.2.10:6443"} {
			if slices.Contains(got, netip.MustParseAddrPort(address)) != want {
				t.Errorf("%s: got %v, want %s: %t", what, got, address, want)
			}
		}
	}
	has("first", true)
	before := calls.Load()
	has("soon", true)
	if calls.Load() != before {
		t.Error("it is read again at once")
	}
	status.Store(http.StatusServiceUnavailable)
	now = now.Add(2 * apiEndpointsEvery)
	has("without an answer, the last ones stay", true)
	status.Store(http.StatusForbidden)
	has("without permission", false)
}
