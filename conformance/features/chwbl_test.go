package features

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestCHWBL_GatewayKeepsConversationsTogether(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for _, name := range []string{"a", "b", "c"} {
		s.server(name)
	}
	s.up("chwbl.yaml")
	s.answers("/", http.StatusOK)
	seen := map[string]bool{}
	for i := range 12 {
		turn := `{"role":"system","content":"You are helpful."},{"role":"user","content":"question ` + fmt.Sprint(i) +
			`"}`
		by := s.answered("/", `{"model":"llama","messages":[`+turn+`]}`).by()
		seen[by] = true
		turn += `,{"role":"assistant","content":"an answer"},{"role":"user","content":"and more"}`
		if next := s.answered("/", `{"model":"llama","messages":[`+turn+`]}`).by(); next != by || by == "" {
			t.Errorf("a conversation began at %q and went on at %q, want the same server", by, next)
		}
	}
	if len(seen) < 2 {
		t.Errorf("all conversations at %v, want at least 2 of them", seen)
	}
	got, err := s.ask("/", `{"model":"llama","messages":[{"role":`)
	if err != nil || got.status != http.StatusBadRequest || got.header.Get("x-penstock-reason") != "invalid_body" ||
		!strings.Contains(got.body, `"type":"invalid_request_error"`) {
		t.Errorf("a body that is not JSON: got %d %v %s %v, want 400 with reason invalid_body", got.status, got.header,
			got.body, err)
	}
}
