package features

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestLatency_RequestsGoToTheClusterThatAnswersFirst(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	east, west := s.cluster("east"), s.cluster("west")
	east.set(slow(time.Second))
	s.up("latency.yaml")
	s.answers("/far", http.StatusOK)
	s.Eventually("both clusters are tried", func() error {
		s.served("/far")
		text := s.metrics()
		for _, name := range []string{"east", "west"} {
			if !strings.Contains(text,
				fmt.Sprintf(`penstock_selection_first_byte_seconds{cluster=%q,import="default/far"} `,
					name)) {
				return fmt.Errorf("%s has no time to the first byte, want one", name)
			}
		}
		return nil
	})
	for range 15 {
		if by := s.served("/far"); by != "west" {
			t.Errorf("%s serves, want west, which answers sooner:\n%s", by, s.explain("--last", "2"))
		}
	}
	if text := s.explain("--last", "1"); !strings.Contains(text, "Latency") ||
		!strings.Contains(text, "by its answers, round trip") || strings.Contains(text, "cached") {
		t.Errorf("explain: got\n%s\nwant a choice by latency", text)
	}
	west.set(slow(3 * time.Second))
	east.reset()
	s.goes("/far", "east", 1)
}
