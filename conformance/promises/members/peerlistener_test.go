//go:build lab && linux

package members

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/penstock-project/penstock/conformance/lab/installed"
)

// The fleets of both exporters listen for members, at their Services. Meanwhile all processes of an exporter are killed, and new pods take the place
// of others, as in an upgrade: Envoys keep what members need.
func TestPeerListener_FleetsServeMembersWhilePenstockIsReplaced(t *testing.T) {
	const port = 15443
	s := newQuietSite(t)
	s.ready("east", "north")
	exporters := []*cluster{s.east, s.north}
	set := func(port int) {
		t.Helper()
		for _, c := range exporters {
			of := spec(c.Member, false, c.Others(members)...)
			of.PeerListener = port
			if err := c.Join(c.Context(), of); err != nil {
				t.Fatal(err)
			}
		}
	}
	set(port)
	for _, c := range exporters {
		c.address()
		c.annotate("export-mode", `"ParentMode"`)
	}
	s.imports("the exporters have peer listeners", func(of map[string]map[string]any) error {
		for _, c := range exporters {
			if text := fmt.Sprint(of[c.Name]["parents"]); !strings.Contains(text, "peer:true") || !strings.Contains(text, fmt.Sprintf("number:%d", port)) {
				return fmt.Errorf("%s: %s", c.Name, text)
			}
		}
		return nil
	})
	s.ready("east", "north")
	s.begins("epp") // the picker of chat is Penstock itself
	s.east.kill()
	s.load.Goes(100)
	s.load.serves("east", "north")
	for n := range 2 {
		patch := fmt.Sprintf(`{"spec": {"template": {"metadata": {"annotations": {"rollout": "peers-%d"}}}}}`, n)
		if _, err := s.east.AppsV1().Deployments(installed.System).Patch(t.Context(), "penstock", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		s.east.RolledOut(installed.System, "penstock")
		s.load.serves("east", "north")
	}
	s.ends()
	for _, c := range exporters {
		c.annotate("export-mode", "null")
	}
	set(0)
	s.ready("east", "north")
}
