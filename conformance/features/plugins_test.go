package features

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/picker"
)

// Plugins change in a file and in a ConfigMap. After an invalid change, the last valid document
// stays in use.
func TestPlugins_AreReloadedAndKeepLastGood(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.server("pod-east")
	s.server("pod-west")
	s.up("plugins.yaml", with("file"))
	invalid := swap("queue-scorer", "file-discovery")
	toWest := swap("matchLabels: {zone: east}", "matchLabels: {zone: west}")
	s.goes("/", "pod-east", 5)
	s.write("plugins.yaml", with("file"), toWest)
	s.goes("/", "pod-west", 5)

	s.write("plugins.yaml", with("file"), invalid)
	s.reports("file-discovery")
	s.goes("/", "pod-west", 5)

	// A ConfigMap's text is only read when it is used. If it is invalid, the picker keeps its
	// plugins.
	s.write("plugins.yaml", with("map"))
	s.goes("/", "pod-east", 5)
	s.write("plugins.yaml", with("map"), toWest, invalid)
	s.reports("InvalidConfigRef")
	s.goes("/", "pod-east", 5)
	s.write("plugins.yaml", with("map"), toWest)
	s.goes("/", "pod-west", 5)

	kept, out := 0, 0
	for _, v := range s.explanation().Verdicts {
		switch {
		case v.Out == "zone":
			out++
		case len(v.Scores) == 2 && v.Scores[1].Plugin == "queue-scorer" && v.Scores[1].Weight == 2 && v.Score == 2:
			kept++
		}
	}
	if kept != 1 || out != 1 {
		t.Errorf("got %+v, want 1 server out and 1 with score 2", s.explanation())
	}
	text := s.explain(s.url("/"))
	for _, want := range []string{"strategy plugins",
		"score 2.000 (prefix-cache-scorer 0.000 x 3, queue-scorer 1.000 x 2)", "out: zone"} {
		if !strings.Contains(text, want) {
			t.Errorf("explain: got\n%s\nwant %q", text, want)
		}
	}
}

func (s *site) explanation() picker.Explanation {
	s.Helper()
	var e struct {
		Picks map[string]picker.Explanation `json:"picks"`
	}
	if err := json.Unmarshal([]byte(s.explain(s.url("/"), "-o", "json")), &e); err != nil {
		s.Fatal(err)
	}
	return e.Picks["default/chat"]
}
