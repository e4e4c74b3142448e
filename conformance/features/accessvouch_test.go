package features

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// With allow.identities, the exporter's access log has the caller that the importing cluster
// authenticated, as MEMBER:CALLER. Without it, the exporter ignores identities that members send.
func TestClusterSet_ExporterBelievesCallersAsFarAsItAllows(t *testing.T) {
	t.Parallel()
	far, here := newSite(t), newSite(t)
	far.server("a")
	log := filepath.Join(far.state, "access.log")
	far.flags = []string{"--access-log", log}
	far.member("far", far.peerListener(), "accessmembers.yaml", with("far"))
	here.restrict(map[string]string{"all": "owner: all, groups: [staff]"})
	here.member("here", "", "accessmembers.yaml", with("here", "gate"))
	here.join(far)
	asks := func(want string) {
		t.Helper()
		far.Eventually("the exporter's access log has the caller "+want, func() error {
			if got := here.outcome("/", secret("all")...); got != "200" {
				return fmt.Errorf(`a request with a key: got %s, want "200"`, got)
			}
			text, err := os.ReadFile(log)
			if err != nil {
				return err
			}
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			last := lines[len(lines)-1]
			return because(strings.Contains(last, `"caller":`+want), last)
		})
		for name, values := range far.last("a").Headers {
			if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-penstock-") ||
				strings.HasPrefix(lower, "penstock-peer-") {
				t.Errorf("the server receives %s: %s", name, values)
			}
		}
	}
	asks("null")
	disbelieve := far.believe()
	asks(`"here:default/all"`)
	disbelieve()
	asks("null")
}

// believe makes a site accept owners and groups of callers from members (allow.identities).
func (s *site) believe() (undo func()) {
	s.Helper()
	set, err := os.ReadFile(filepath.Join(s.Files, "set.yaml"))
	if err != nil {
		s.Fatal(err)
	}
	allowed := strings.Replace(string(set), "allow:\n", "allow:\n      identities: [Owner, Groups]\n", 1)
	if allowed == string(set) {
		s.Fatalf("the member's file: got %s, want one with allow", set)
	}
	s.Write("set.yaml", allowed)
	return func() { s.Write("set.yaml", string(set)) }
}

type collector struct {
	mu     sync.Mutex
	bodies []string
}

// traced sends the spans of the site's picks to a collector. It must precede up.
func (s *site) traced() *collector {
	c := &collector{}
	server := s.backend("collector", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.bodies = append(c.bodies, string(body))
	}))
	s.env = append(s.env, "OTEL_EXPORTER_OTLP_ENDPOINT="+server.URL, "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
		"OTEL_BSP_SCHEDULE_DELAY=50")
	return c
}

// caller returns the caller of a pick, or "". arrived is false before the pick's span arrives.
// Tests wait for each span, so that no body has spans of two traces.
func (c *collector) caller(trace string) (by string, arrived bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id, _ := hex.DecodeString(trace)
	for _, body := range c.bodies {
		if !strings.Contains(body, string(id)) {
			continue
		}
		// In OTLP's encoding, an attribute's key is followed by tag and size of its value, tag and
		// size of the text in the value, and the text.
		if _, value, ok := strings.Cut(body, "enduser.id"); ok && len(value) > 4 && len(value) >= 4+int(value[3]) {
			by = value[4 : 4+int(value[3])]
		}
		arrived = true
	}
	return by, arrived
}

// In EndpointMode the importing cluster sends the caller to the exporter's picker, also after a
// spill. If the ClusterSet allows it, the picker uses the caller as MEMBER:CALLER.
func TestClusterSet_ExportersPickerKnowsTheCallerInEndpointMode(t *testing.T) {
	t.Parallel()
	far, here := newSite(t), newSite(t)
	far.server("a")
	spans := far.traced()
	in := func(name string) string { return filepath.Join(far.state, "credentials", name) }
	if out, err := exec.CommandContext(t.Context(), binary, "credentials", "--dir", in(""), "--host", "127.0.0.1").
		CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	// The picker accepts callers only from members, which have client certificates.
	far.flags = []string{"--xds-cert", in("penstock.crt"), "--xds-key", in("penstock.key"), "--xds-client-ca",
		in("ca.crt")}
	far.member("far", far.peerListener(), "accessmembers.yaml", with("far"),
		swap("export-mode: ParentMode", "export-mode: EndpointMode"))
	here.restrict(map[string]string{"all": "owner: all, groups: [staff]"})
	here.member("here", "", "accessmembers.yaml", with("here", "gate", "open", "spill"),
		swap("name: gw}], apiKeys: {}", "name: gw}], except: [{name: open}], apiKeys: {}"))
	here.join(far)
	n := 0
	asks := func(path, want string, headers ...string) {
		t.Helper()
		far.Eventually(path+": the caller of the exporter's pick is "+want, func() error {
			n++
			trace := fmt.Sprintf("4bf92f3577b34da6a3ce929d%08x", n)
			if got := here.outcome(path, append(headers, "traceparent", "00-"+trace+"-00f067aa0ba902b7-01",
				"x-penstock-caller", "default/forged", "penstock-peer-caller", "default/forged",
				"x-gateway-inference-fairness-id", "default/forged")...); got != "200" {
				return fmt.Errorf(`a request: got %s, want "200"`, got)
			}
			got := ""
			far.Eventually("a span arrives", func() error {
				by, arrived := spans.caller(trace)
				got = by
				return because(arrived, "none")
			})
			if strings.Contains(got, "forged") {
				t.Errorf("%s: the caller is %s, want %s", path, got, want)
			}
			return because(got == want, got)
		})
		for name, values := range far.last("a").Headers {
			if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-penstock-") ||
				strings.HasPrefix(lower, "penstock-peer-") || lower == "authorization" && path != "/open" {
				t.Errorf("%s: the server receives %s: %s", path, name, values)
			}
		}
	}
	for _, path := range []string{"/", "/spill"} {
		asks(path, "", secret("all")...)
	}
	disbelieve := far.believe()
	for _, path := range []string{"/", "/spill"} {
		asks(path, "here:default/all", secret("all")...)
	}
	asks("/open", "")
	asks("/open", "", secret("all")...)
	disbelieve()
	asks("/", "", secret("all")...)
}
