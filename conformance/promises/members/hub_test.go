//go:build lab && linux

package members

import (
	"context"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/conformance/lab/installed"
)

// The clusters leave each other's sets, and a hub writes the imports: with the pools' own pickers,
// and from the PoolExports of the Penstocks. The test kills the hub repeatedly, also between its
// writes and while an exporter withdraws pools. No request fails.
func TestHub_KilledHubLosesNoRequest(t *testing.T) {
	s := newQuietSite(t)
	h := s.hub(s.east, s.north, s.west)
	if err := h.Lead("10.128.0.0/9", "east", "north", "west"); err != nil {
		t.Fatal(err)
	}
	start := func() {
		t.Helper()
		if err := h.Start("10s"); err != nil {
			t.Fatal(err)
		}
	}
	start()
	s.ready("east", "north")
	s.begins(pools...)

	h.Kill()
	s.load.Goes(100)
	start()
	s.load.serves("east", "north")

	h.Kill()
	s.north.annotate("export", "null")
	s.load.Goes(50)
	start()
	s.states("north", "False", "Draining")
	s.load.idles("north")
	s.north.annotate("export", `"ClusterSet"`)
	s.ready("east", "north")
	s.load.serves("east", "north")

	s.east.address()
	for n := range 6 { // each round kills the hub later after a change
		mode := []string{"ParentMode", "EndpointMode"}[n%2]
		s.east.annotate("export-mode", fmt.Sprintf("%q", mode))
		s.load.Goes(int64(3 * n))
		h.Kill()
		s.load.Goes(20)
		start()
		s.imports("east has "+mode, func(entries map[string]map[string]any) error {
			if entries["east"]["routingMode"] != mode {
				return fmt.Errorf("east is %v, want %s", entries["east"], mode)
			}
			return nil
		})
	}
	s.ends()
	s.unled(h)
}

// hub makes clusters leave each other's sets, and admits some of them to a hub. When the test ends,
// the clusters join each other's sets again.
func (s *site) hub(admitted ...*cluster) *installed.Hub {
	s.Helper()
	all := []*cluster{s.east, s.north, s.west}
	s.Cleanup(func() {
		for i, c := range all {
			if err := c.Join(context.Background(), spec(c.Member, false, c.Others(members)...)); err != nil {
				s.Errorf("cluster %d: %v", i, err)
			}
		}
	})
	h, err := installed.NewHub(s.TempDir())
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		h.Kill()
		if s.Failed() {
			s.Logf("the hub logged: %s", h.Log())
		}
	})
	for _, c := range all {
		c.join(false)
	}
	for _, c := range admitted {
		if err := h.Admit(s.Context(), c.Name, c.Config); err != nil {
			s.Fatal(err)
		}
	}
	s.without()
	return h
}

func (s *site) unled(h *installed.Hub) {
	s.Helper()
	for _, c := range []*cluster{s.east, s.north} {
		c.annotate("export-mode", "null")
		c.annotate("export", "null")
	}
	s.without()
	h.Kill()
	for _, c := range []*cluster{s.east, s.north} {
		c.annotate("export", `"ClusterSet"`)
	}
}

func (s *site) without() {
	s.Helper()
	for _, pool := range pools {
		s.west.Until("there is no import "+pool, func(ctx context.Context) error {
			_, err := s.west.kind("inference.networking.x-k8s.io", "v1alpha1", "inferencepoolimports").
				Get(ctx, pool, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("the import exists, want it gone: %v", err)
		})
	}
}
