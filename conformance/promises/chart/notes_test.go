package chart

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func notes(t *testing.T, dir, release, namespace string, values map[string]any) string {
	t.Helper()
	out := helm(t, "install", release, dir, "--namespace", namespace, "--dry-run=client",
		"--values", written(t, values))
	_, text, ok := strings.Cut(out, "\nNOTES:\n")
	if !ok {
		t.Fatalf("chart %s prints no notes:\n%.300s", filepath.Base(dir), out)
	}
	return text
}

// Users copy commands from the notes, so the commands must name the release, its namespace and its
// class.
func TestNotes_CommandsAreThoseOfTheRelease(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		dir, namespace string
		values         map[string]any
		want, not      []string
	}{
		"penstock": {chartDir, system, nil, []string{
			"gatewayClassName penstock,", "/docs/install-on-kubernetes.md\n", "penstock status  ",
			"helm uninstall -n penstock-system chat", "one release of this chart",
		}, []string{"--penstock-namespace", "a-first-pool"}},
		"another namespace and class": {chartDir, "infra", map[string]any{"gatewayClass": "edge"}, []string{
			"gatewayClassName edge,", "penstock status --penstock-namespace infra", "helm uninstall -n infra chat",
		}, nil},
		"no class": {chartDir, system, map[string]any{"gatewayClass": ""},
			[]string{"controllerName penstock.dev/gateway-controller", "creates none"}, []string{"gatewayClassName"}},
		"picker": {pickerDir, "team", map[string]any{"pool": servers}, []string{
			"InferencePool team/chat ", "Service chat-epp, port 9002", "deployment/chat-epp",
			"helm uninstall -n team chat",
		}, []string{"creates no pool"}},
		"picker of a pool that exists": {pickerDir, "team", map[string]any{
			"pool": map[string]any{"create": false, "name": "qwen"}, "peers": map[string]any{"secret": "peers"},
		}, []string{"InferencePool team/qwen ", "creates no pool", "statefulset/chat-epp"},
			[]string{"the pool is deleted"}},
		"external": {externalDir, "team", nil, []string{"Service team/chat-processor", "InferencePool chat:",
			"helm uninstall -n team chat"}, nil},
		"external without a pool": {externalDir, "team", map[string]any{"pool": map[string]any{"create": false}},
			[]string{"A PoolPolicy of your pool"}, []string{"the pool is deleted"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := notes(t, c.dir, "chat", c.namespace, c.values)
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("got no %q, want it in\n%s", want, got)
				}
			}
			for _, not := range c.not {
				if strings.Contains(got, not) {
					t.Errorf("got %q, want none in\n%s", not, got)
				}
			}
			pagesExist(t, got)
		})
	}
}

func pagesExist(t *testing.T, text string) {
	t.Helper()
	links := regexp.MustCompile(`/blob/v[0-9.]+/(\S+?\.md)(?:#([a-z-]+))?(?:\s|$|[).])`).FindAllStringSubmatch(text, -1)
	if len(links) == 0 {
		t.Errorf("got no link to a page, want one in\n%s", text)
	}
	for _, link := range links {
		page, err := os.ReadFile(filepath.Join("../../..", link[1]))
		if err != nil {
			t.Error(err)
			continue
		}
		heading := "\n## " + strings.ReplaceAll(link[2], "-", " ") + "\n"
		if link[2] != "" && !strings.Contains(strings.ToLower(string(page)), heading) {
			t.Errorf("%s has no heading %q", link[1], link[2])
		}
	}
}
