package features

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

func prompt(begin string, tokens int) string {
	return fmt.Sprintf(`{"model":"llama","max_tokens":4,"messages":[{"role":"user","content":"%s %s"}]}`, begin,
		strings.Repeat("abc ", tokens))
}

func roles(t *testing.T, config string, roles ...string) *site {
	s := newSite(t)
	for _, role := range roles {
		s.server(role)
	}
	s.up("disagg.yaml", with(append(roles, "policy", config)...))
	s.answers("/", http.StatusOK)
	return s
}

// A header names a prefill server for a long prompt, except for a cached one. The gateway removes
// clients' values of the header.
func TestDisagg_PrefillServerIsNamed(t *testing.T) {
	t.Parallel()
	s := roles(t, "roles", "prefill", "decode")
	const header = "X-Prefiller-Host-Port"
	served := func(body, want string) {
		t.Helper()
		got := s.answered("/", body, header, "169.254.169.254:80", "x-encoder-hosts-ports", "10.0.0.1:1",
			"x-dynamo-worker-instance-id", "7")
		if got.by() != "decode" {
			t.Fatalf(`%d from %q: %s, want "decode"`, got.status, got.by(), got.body)
		}
		h := s.last("decode").Headers
		if h.Get(header) != want || h.Get("x-encoder-hosts-ports") != "" || h.Get("x-dynamo-worker-instance-id") != "" {
			t.Errorf("%s..: it got %v, want %q", body[:80], h, want)
		}
	}
	prefill := s.address("prefill")
	served(prompt("short", 8), "")
	served(prompt("long", 400), prefill)
	served(prompt("long", 400), "") // decode now has the prompt cached
	// Of the two picks, only the earlier has a prefill server. The expression ignores the server's
	// address elsewhere in the text.
	label := regexp.MustCompile(`(?m)^  prefill +` + regexp.QuoteMeta(prefill) + `$`)
	if text := s.explain("--last", "2"); len(label.FindAllString(text, -1)) != 1 {
		t.Errorf("explain --last 2: got\n%s\nwant the label prefill %s once", text, prefill)
	}
	if text := s.explain(s.url("/")); !strings.Contains(text, "out: decode-filter") ||
		!strings.Contains(text, "out: prefill-filter") {
		t.Errorf("explain: got\n%s\nwant out: decode-filter, and out: prefill-filter", text)
	}

	s.write("disagg.yaml", with("decode", "policy", "roles"))
	n := 0
	s.Eventually("decode is alone", func() error {
		n++
		s.answered("/", prompt(fmt.Sprint("other ", n), 400))
		h := s.last("decode").Headers.Get(header)
		return because(h == "", "it got ", h)
	})
	s.write("disagg.yaml", with("prefill", "policy", "roles"))
	s.answers("/", http.StatusServiceUnavailable)
}

// dynamo numbers the servers, and adds the plugin that sends the numbers to Dynamo's frontends.
var dynamo = []edit{
	swap("llm-d.ai/role: prefill", `llm-d.ai/role: prefill, penstock.dev/dynamo-instance-id: "17"`),
	swap("llm-d.ai/role: decode", `llm-d.ai/role: decode, penstock.dev/dynamo-instance-id: "18"`),
	swap("- type: max-score-picker", "- type: max-score-picker\n- type: dynamo-headers"),
}

func TestDisagg_NextPoolAfterASpillSeesNoPrefillServer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("prefill")
	s.closed("decode")
	s.server("other")
	parts := with("prefill", "decode", "spill", "roles")
	s.up("disagg.yaml", parts)
	s.answers("/", http.StatusOK)
	spilled := func(body string) {
		t.Helper()
		s.Eventually("the other pool serves what the client sent", func() error {
			for range 3 {
				by, last := s.answered("/", body).by(), s.last("other")
				if h := last.Headers; by != "other" || h.Get("x-prefiller-host-port") != "" ||
					h.Get("x-dynamo-worker-instance-id") != "" || last.Body != body {
					return fmt.Errorf(`got %q, which got %v: %.100s, want "other", and no header that names a server`,
						by, h, last.Body)
				}
			}
			return nil
		})
	}
	spilled(prompt("one", 400))
	s.write("disagg.yaml", append([]edit{parts}, dynamo...)...)
	spilled(strings.Replace(prompt("two", 400), "{", `{"nvext":{"token_data":[1,2]},`, 1))
}

func TestDynamo_FrontendsGetTheWorkersOfThePick(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("prefill")
	s.server("decode")
	s.up("disagg.yaml", append([]edit{with("prefill", "decode", "policy", "roles")}, dynamo...)...)
	s.answers("/", http.StatusOK)
	body := strings.Replace(prompt("long", 400), "{",
		`{"nvext":{"token_data":[1,2],"prefill_worker_id":666,"annotations":["big: 9007199254740993"]},`, 1)
	got := s.answered("/", body, "x-worker-instance-id", "666", "x-dynamo-prefill-instance-id", "666", "x-dp-rank", "5")
	if got.by() != "decode" {
		t.Fatalf(`%d from %q: %s, want "decode"`, got.status, got.by(), got.body)
	}
	last := s.last("decode")
	for name, want := range map[string]string{
		"x-dynamo-worker-instance-id": "18", "x-dynamo-prefill-instance-id": "17",
		"x-dynamo-routing-mode": "disaggregated",
		"x-worker-instance-id":  "", "x-dp-rank": "", "x-prefiller-host-port": s.address("prefill"),
	} {
		if got := last.Headers.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if want := strings.NewReplacer("[1,2]", "null", "666", "null").Replace(body); last.Body != want {
		t.Errorf("the server got %.200s, want %.200s", last.Body, want)
	}
}

func TestDisagg_ImagesAreEncodedElsewhere(t *testing.T) {
	t.Parallel()
	s := roles(t, "images", "encode", "decode")
	encode := s.address("encode")
	for content, want := range map[string]string{
		`"text"`: "",
		`[{"type":"text","text":"what?"},{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}]`: encode,
		`[{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}]`:                                 encode,
	} {
		s.answered("/", `{"model":"llama","messages":[{"role":"user","content":`+content+`}]}`)
		last := s.last("decode")
		if by := last.Headers.Get("x-encoder-hosts-ports"); by != want || !strings.Contains(last.Body, content) {
			t.Errorf("%s: encoded at %q, want %q: %s", content, by, want, last.Body)
		}
	}
}

// A sidecar at the pod's first port passes requests to the pod's data-parallel ranks. The picker
// names the rank in a header.
func TestDisagg_DataParallelRankIsNamed(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.ports["rank"] = s.Port()
	s.server("pod", "--listen", s.address("rank"))
	s.up("disagg.yaml", with("policy", "ranks"))
	s.answers("/", http.StatusOK)
	seen := map[string]int{}
	for range 40 {
		if at := s.answered("/", question).header.Get("x-served-at"); at != s.address("pod") {
			t.Fatalf("served at %q, want %q", at, s.address("pod"))
		}
		seen[s.last("pod").Headers.Get("x-data-parallel-host-port")]++
	}
	if len(seen) != 2 || seen[s.address("pod")] == 0 || seen[s.address("rank")] == 0 {
		t.Errorf("requests by rank: got %v, want some at each of %s and %s", seen, s.address("pod"), s.address("rank"))
	}
}
