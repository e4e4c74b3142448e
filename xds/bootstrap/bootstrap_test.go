package bootstrap_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/penstock-project/penstock/xds/bootstrap"
	"github.com/penstock-project/penstock/xds/xdstest/envoytest"
)

func TestBootstrap_GoldenIsValidForEnvoy(t *testing.T) {
	for name, c := range map[string]bootstrap.Config{
		"standalone": {Gateway: "default/web", ADS: []string{"127.0.0.1:18000", "127.0.0.1:18001"},
			Admin: "127.0.0.1:19000"},
		"sockets": {Gateway: "default/web", ADS: []string{"unix:///run/penstock/ads"},
			Admin: "unix:/run/penstock/admin"},
		"fleet": {
			Gateway: "team-a/edge", NodeID: "team-a/edge/pod-0", Zone: "eu-1a", Profile: "v1",
			ADS: []string{"penstock.penstock-system:18000"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := yaml(t, c)
			path := filepath.Join("testdata", name+".yaml")
			if os.Getenv("PENSTOCK_GOLDEN") == "rewrite" {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if problem := envoytest.Validate(t, got); problem != "" {
				t.Error(problem)
			}
		})
	}
}

func TestBootstrap_VerifiesControlPlane(t *testing.T) {
	ca, cert, key := certificate(t)
	c := bootstrap.Config{Gateway: "a/b", ADS: []string{"penstock.example:18000"},
		TLS: &bootstrap.TLS{CA: ca, Cert: cert, Key: key}}
	got := yaml(t, c)
	for _, want := range []string{"exact: penstock.example", "sni: penstock.example", "filename: " + ca,
		"filename: " + key} {
		if !strings.Contains(string(got), want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if problem := envoytest.Validate(t, got); problem != "" {
		t.Error(problem)
	}
}

func TestBootstrap_ErrorNamesInvalidField(t *testing.T) {
	good := bootstrap.Config{Gateway: "a/b", ADS: []string{"127.0.0.1:1"}}
	for want, change := range map[string]func(*bootstrap.Config){
		"write namespace/name":          func(c *bootstrap.Config) { c.Gateway = "web" },
		"no address":                    func(c *bootstrap.Config) { c.ADS = nil },
		"write host:port":               func(c *bootstrap.Config) { c.ADS = []string{"localhost"} },
		"from 0 to 65535":               func(c *bootstrap.Config) { c.ADS = []string{"localhost:70000"} },
		"no path":                       func(c *bootstrap.Config) { c.Admin = "unix:" },
		"on an IP address":              func(c *bootstrap.Config) { c.Admin = "localhost:19000" },
		"only together with its key":    func(c *bootstrap.Config) { c.TLS = &bootstrap.TLS{CA: "ca", Cert: "c"} },
		"TLS to the control plane need": func(c *bootstrap.Config) { c.TLS = &bootstrap.TLS{} },
	} {
		c := good
		change(&c)
		if _, err := bootstrap.YAML(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func TestDrain_ArgumentsSetDrainTime(t *testing.T) {
	args := bootstrap.Config{DrainTime: 42 * time.Second, Concurrency: 3}.Args()
	for _, pair := range [][2]string{{"--drain-time-s", "42"}, {"--drain-strategy", "immediate"},
		{"--concurrency", "3"}} {
		if i := slices.Index(args, pair[0]); i < 0 || args[i+1] != pair[1] {
			t.Errorf("no %s in %v", pair, args)
		}
	}
}

func yaml(t *testing.T, c bootstrap.Config) []byte {
	t.Helper()
	out, err := bootstrap.YAML(c)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
