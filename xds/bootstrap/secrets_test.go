package bootstrap_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/xds/bootstrap"
	"github.com/penstock-project/penstock/xds/cache"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

func TestServiceAccountToken_RotationNeedsNoRestart(t *testing.T) {
	ca := newAuthority(t)
	plane := startPlane(t, true)
	plane.certify(ca.issue(t, "penstock.example"))
	cas, tokens := newVolume(t), newVolume(t)
	cas.write(map[string][]byte{"ca.crt": ca.pem})
	tokens.write(map[string][]byte{"token": []byte("first")})
	startWithSecrets(t, bootstrap.Config{
		TLS: &bootstrap.TLS{CA: cas.path("ca.crt"), ServerName: "penstock.example"}, Token: tokens.path("token"),
	}, plane)
	plane.expect(t, "Bearer first")
	tokens.write(map[string][]byte{"token": []byte("second")})
	plane.expect(t, "Bearer second")
}

func TestBootstrap_NewAuthorityNeedsNoRestart(t *testing.T) {
	first, second := newAuthority(t), newAuthority(t)
	plane := startPlane(t, true)
	plane.certify(first.issue(t, "penstock.example"))
	cas := newVolume(t)
	cas.write(map[string][]byte{"ca.crt": first.pem})
	envoy := startWithSecrets(t, bootstrap.Config{
		TLS: &bootstrap.TLS{CA: cas.path("ca.crt"), ServerName: "penstock.example"},
	}, plane)
	plane.expect(t, "")
	// This check shows that Envoy verifies at all.
	plane.certify(second.issue(t, "penstock.example"))
	poll.Until(t, "Envoy rejects the second authority", func() bool {
		return envoy.Stats("cluster.xds.ssl.fail_verify_error")["cluster.xds.ssl.fail_verify_error"] > 0
	})
	cas.write(map[string][]byte{"ca.crt": slices.Concat(first.pem, second.pem)})
	plane.expect(t, "")
	plane.certify(first.issue(t, "penstock.example"))
	plane.expect(t, "")
	cas.write(map[string][]byte{"ca.crt": second.pem})
	plane.certify(second.issue(t, "penstock.example"))
	plane.expect(t, "")
	plane.certify(second.issue(t, "other.example")) // right authority, wrong name
	failures := "cluster.xds.ssl.fail_verify_san"
	poll.Until(t, "Envoy rejects another name", func() bool { return envoy.Stats(failures)[failures] > 0 })
}

func TestCertificate_RotationNeedsNoRestart(t *testing.T) {
	ca := newAuthority(t)
	plane := startPlane(t, true)
	plane.certify(ca.issue(t, "penstock.example"))
	certs := newVolume(t)
	certificate := func(name string) {
		c := ca.issue(t, name)
		certs.write(map[string][]byte{"ca.crt": ca.pem, "tls.crt": c.certPEM, "tls.key": c.keyPEM})
	}
	certificate("edge-1.example")
	startWithSecrets(t, bootstrap.Config{
		TLS: &bootstrap.TLS{CA: certs.path("ca.crt"), Cert: certs.path("tls.crt"), Key: certs.path("tls.key"),
			ServerName: "penstock.example"},
	}, plane)
	plane.expect(t, "edge-1.example")
	certificate("edge-2.example")
	plane.expect(t, "edge-2.example")
}

func TestReadiness_FromFirstConfigurationUntilDrain(t *testing.T) {
	plane := startPlane(t, false)
	port := int(envoytest.FreePort(t))
	c := bootstrap.Config{Gateway: "a/b", ADS: []string{plane.address}, Ready: fmt.Sprintf("127.0.0.1:%d", port)}
	envoy := envoytest.StartGateway(t, c)
	plane.expect(t, "")
	ready := func() int {
		resp, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, bootstrap.ReadyPath))
		if err != nil {
			return 0
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	if got := ready(); got != 0 {
		t.Errorf("status %d without a configuration, want no answer", got)
	}
	plane.cache.Commit(cache.Batch{Gateway: "a/b"})
	plane.cache.SetReady()
	poll.Until(t, "ready", func() bool { return ready() == http.StatusOK })
	if _, err := envoy.Post("/healthcheck/fail"); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "not ready", func() bool { return ready() == http.StatusServiceUnavailable })
}

func TestBootstrap_ExtraIsMerged(t *testing.T) {
	c := bootstrap.Config{Gateway: "a/b", ADS: []string{"127.0.0.1:1"},
		Extra: []byte(
			`{"stats_flush_interval":"11s","static_resources":{"clusters":[{"name":"mine","type":"STATIC"}]}}`)}
	got := string(yaml(t, c))
	for _, want := range []string{"stats_flush_interval: 11s", "name: mine", "name: xds"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if problem := envoytest.Validate(t, []byte(got)); problem != "" {
		t.Error(problem)
	}
	c.Ready = "127.0.0.1:1"
	for extra, want := range map[string]string{
		`{"static_resources":{"clusters":[{"name":"xds"}]}}`:                   `static_resources.clusters cannot be merged in: there are two of the name "xds"; choose another one`,
		`{"static_resources":{"listeners":[{"name":"ready"}]}}`:                `static_resources.listeners cannot be merged in: there are two of the name "ready"`,
		`{"layered_runtime":{"layers":[{"name":"static","static_layer":{}}]}}`: `layered_runtime.layers cannot be merged in: there are two of the name "static"`,
		`{"static_resources":{"clusters":[{"name":"pool/default/chat"}]}}`:     `static_resources.clusters cannot be merged in: "pool/default/chat" may be a name of what Penstock delivers`,
		`{"static_resources":{"clusters":[{"name":"penstock-picker"}]}}`:       `"penstock-picker" may be a name of what Penstock delivers`,
		`{"static_resources":{"listeners":[{"name":"listener/80"}]}}`:          `static_resources.listeners cannot be merged in: "listener/80" may be a name`,

		`{"node":{"id":"x"}}`:  "node cannot be merged in",
		`{"staticResources":1`: "not a valid bootstrap",
		`{"typo":1}`:           "typo",
	} {
		c.Extra = []byte(extra)
		if _, err := bootstrap.YAML(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want %q, got %v", extra, want, err)
		}
	}
}
