package envoytest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
)

const static = `
static_resources:
  listeners:
  - name: hello
    address: {socket_address: {address: 127.0.0.1, port_value: %d}}
    filter_chains:
    - filters:
      - name: hcm
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: hello
          route_config: {virtual_hosts: [{name: all, domains: ["*"], routes: [{match: {prefix: /}, direct_response: {status: 200, body: {inline_string: hello}}}]}]}
          http_filters:
          - name: envoy.filters.http.router
            typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
`

func TestEnvoy_ServesWithAdminInterface(t *testing.T) {
	port := envoytest.FreePort(t)
	e := envoytest.Start(t, envoytest.Config{Bootstrap: fmt.Appendf(nil, static, port)})
	e.WaitLive()
	resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", port))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, _ := io.ReadAll(resp.Body); string(body) != "hello" {
		t.Errorf("body %q, want hello", body)
	}
	e.Wait("the request is counted", func() bool { return e.Stats("hello")["http.hello.downstream_rq_2xx"] == 1 })
	if !strings.Contains(string(e.ConfigDump()), `"hello"`) {
		t.Error("the dump does not show the listener")
	}
}

func TestValidate_ReportsInvalidBootstrap(t *testing.T) {
	if problem := envoytest.Validate(t, fmt.Appendf(nil, static, 0)); problem != "" {
		t.Errorf("valid bootstrap: got %s, want no problem", problem)
	}
	if problem := envoytest.Validate(t,
		[]byte(`static_resources: {clusters: [{name: a, type: NOPE}]}`)); !strings.Contains(problem, "NOPE") {
		t.Errorf(`invalid bootstrap: %q, want a text with "NOPE"`, problem)
	}
}
