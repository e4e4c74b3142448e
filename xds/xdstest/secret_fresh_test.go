package xdstest_test

import (
	"strings"
	"testing"

	"github.com/penstock-project/penstock/xds/server"
	"github.com/penstock-project/penstock/xds/xdstest"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
)

func TestNACK_OfASecretStaysReportedForAnEnvoyThatHasJustStarted(t *testing.T) {
	for _, variant := range []string{"DELTA_GRPC", "GRPC"} {
		t.Run(variant, func(t *testing.T) {
			t.Parallel()
			w := &world{T: t, reports: &reports{}, a: backend(t), port: envoytest.FreePort(t)}
			w.control = xdstest.Serve(t, server.Config{Reports: w.reports})
			good, bad := envoytest.FreePort(t), envoytest.FreePort(t)
			_, key := issue(t, 1)
			w.control.Commit(append(w.base(), tlsListener(t, "good", good, "routes", "fine"), certificate(t, "fine", 3),
				tlsListener(t, "closed", bad, "routes", "bad"), pair(t, "bad", []byte("not PEM"), key)))
			w.proxy = startEnvoy(t, w.control, variant)
			w.waitServes(w.port, w.a)
			w.wait("the good certificate", func() bool { return served(good) == 3 })
			w.wait("everything answered", func() bool {
				for _, p := range w.control.Server.Proxies() {
					for _, typ := range p.Types {
						if typ.Pending > 0 {
							return false
						}
					}
				}
				return true
			})
			if m := w.reports.message("bad"); !strings.Contains(m, "Failed to load certificate chain") {
				t.Errorf(`a closed listener has the report %q, want "Failed to load certificate chain"`, m)
			}
			if m := w.reports.message("fine"); m != "" {
				t.Errorf("a good certificate has a report, want none: %s", m)
			}
			w.control.Stop()
			w.control.Start(server.Config{Cache: w.control.Cache, Reports: w.reports})
			w.wait("again", func() bool { return w.control.Server.Connected("") > 0 })
			w.wait("everything answered", func() bool {
				ps := w.control.Server.Proxies()
				for _, p := range ps {
					for _, typ := range p.Types {
						if typ.Pending > 0 {
							return false
						}
					}
				}
				return len(ps) > 0
			})
			t.Logf("%+v", w.control.Server.Proxies())
			if m := w.reports.message("bad"); !strings.Contains(m, "Failed to load certificate chain") {
				t.Errorf(`after a reconnect: %q, want a text with "Failed to load certificate chain"`, m)
			}
		})
	}
}
