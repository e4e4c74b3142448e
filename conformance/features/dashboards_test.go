//go:build prometheus

package features

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/conformance/promises/process"
	"github.com/penstock-project/penstock/manifests/monitoring"
)

// without has the panels without data in this test, and the reason.
var without = map[string]string{
	"NACKs":                     "Envoy rejects nothing",
	"Wait that clusters report": "the import has one cluster, so there is no choice between clusters",
}

func TestDashboards_EachQueryHasData(t *testing.T) {
	s, east := newSite(t), newSite(t)
	for _, name := range []string{"pod", "here"} {
		east.server(name)
		s.ports[name] = east.ports[name]
	}
	s.backend("broken", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet { // requests for health and metrics always succeed
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	east.member("east", east.peerListener(), "upgrade.yaml", with("exported"))
	s.member("west", s.peerListener(), "dashboards.yaml")
	s.join(east)
	p := newPrometheus(t, s, east)
	for _, path := range []string{"/", "/far"} {
		s.answers(path, http.StatusOK)
	}
	for _, path := range []string{"/", "/", "/", "/", "/far"} { // more requests than the pool's limit, which is one
		s.traffic(path)
	}
	s.answers("/broken", http.StatusInternalServerError)
	s.traffic("/broken")
	var unknown []string
	for panel := range without {
		unknown = append(unknown, panel)
	}
	changes := 0
	s.Eventually("each query has data", func() error {
		var missing []string
		changes++ // Envoy receives each change
		s.write("dashboards.yaml", swap("/changed", fmt.Sprint("/changed-", changes)))
		for _, d := range monitoring.Dashboards() {
			for _, panel := range d.Panels {
				unknown = slices.DeleteFunc(unknown, func(name string) bool { return name == panel.Title })
				for _, q := range panel.Queries {
					n, err := p.query(strings.NewReplacer("$pool", ".*", "$import", ".*").Replace(q.Expr))
					if err != nil {
						return fmt.Errorf("%s: %w", q.Expr, err)
					}
					if why := without[panel.Title]; (n == 0) != (why != "") {
						missing = append(missing, fmt.Sprintf("%s, %s: %d series (%s)", d.Name, panel.Title, n, q.Expr))
					}
				}
			}
		}
		if len(missing) == 0 {
			return nil
		}
		return errors.New("other than expected:\n" + strings.Join(missing, "\n"))
	})
	if len(unknown) > 0 {
		t.Errorf("no panel is called %q", unknown)
	}
}

type prometheus struct {
	s    *site
	base string
}

func newPrometheus(t *testing.T, sites ...*site) *prometheus {
	t.Helper()
	program := os.Getenv("PROMETHEUS")
	if program == "" {
		program, _ = filepath.Abs("../../.tools/bin/prometheus")
	}
	if _, err := os.Stat(program); err != nil {
		t.Fatalf("no prometheus: run conformance/tools/prometheus.sh, or set $PROMETHEUS (%v)", err)
	}
	s := sites[0]
	var targets []string
	for i, at := range sites {
		metrics := overSocket(filepath.Join(at.state, "api.sock"))
		name := fmt.Sprintf("metrics-%d", i)
		s.backend(name, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			got, err := at.read(metrics, "http://penstock/metrics")
			if err != nil || got.status != http.StatusOK {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			w.Header().Set("content-type", "text/plain; version=0.0.4")
			_, _ = w.Write([]byte(got.body))
		}))
		targets = append(targets, strconv.Quote(s.address(name)))
	}
	dir := t.TempDir()
	config := fmt.Sprintf("global: {scrape_interval: 1s}\nscrape_configs:\n"+
		"- job_name: team/penstock\n  static_configs: [{targets: [%s]}]\n", strings.Join(targets, ", "))
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s.closed("prometheus")
	p := &prometheus{s: s, base: "http://" + s.address("prometheus")}
	run, err := process.Start("prometheus", filepath.Join(dir, "log"), program, nil,
		"--config.file", filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path", filepath.Join(dir, "data"),
		"--web.listen-address", s.address("prometheus"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run.Stop(process.Limit) })
	s.Eventually("prometheus scrapes all", func() error {
		n, err := p.query("up == 1")
		return errors.Join(err, because(n == len(sites), n, " targets are up"))
	})
	return p
}

// query returns the number of series that have a value now.
func (p *prometheus) query(expr string) (n int, err error) {
	got, err := p.s.get(p.base + "/api/v1/query?query=" + url.QueryEscape(expr))
	if err != nil {
		return 0, err
	}
	var out struct {
		Status, Error string
		Data          struct{ Result []struct{ Value []any } }
	}
	if err := json.Unmarshal([]byte(got.body), &out); err != nil || out.Status != "success" {
		return 0, fmt.Errorf(`got %s %w: %s, want status "success"`, out.Error, err, got.body)
	}
	for _, series := range out.Data.Result {
		if len(series.Value) != 2 {
			continue
		}
		if v, err := strconv.ParseFloat(fmt.Sprint(series.Value[1]), 64); err == nil && !math.IsNaN(v) {
			n++
		}
	}
	return n, nil
}
