//go:build lab && linux

package members

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/penstock-project/penstock/conformance/lab/installed"
)

// The fleets of both exporters listen for members at their Services. All processes of an exporter
// are killed, and then new pods replace the processes, as in an upgrade. Envoys must keep the
// listeners for members.
func TestPeerListener_FleetsServeMembersWhilePenstockIsReplaced(t *testing.T) {
	const port = 15443
	s := newQuietSite(t)
	s.ready("east", "north")
	exporters := []*cluster{s.east, s.north}
	s.listenForMembers(port)
	for _, c := range exporters {
		c.address()
		c.annotate("export-mode", `"ParentMode"`)
	}
	s.imports("the exporters have peer listeners", func(entries map[string]map[string]any) error {
		for _, c := range exporters {
			if text := fmt.Sprint(entries[c.Name]["parents"]); !strings.Contains(text, "peer:true") ||
				!strings.Contains(text, fmt.Sprintf("number:%d", port)) {
				return fmt.Errorf("parents of %s: got %s, want peers at %d", c.Name, text, port)
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
		if _, err := s.east.AppsV1().Deployments(installed.System).Patch(t.Context(), "penstock", types.MergePatchType,
			[]byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		s.east.RolledOut(installed.System, "penstock")
		s.load.serves("east", "north")
	}
	s.ends()
	for _, c := range exporters {
		c.annotate("export-mode", "null")
	}
	s.listenForMembers(0)
	s.ready("east", "north")
}

// Through peer listeners, the exporters' own pickers serve the importer over mTLS, and no other
// client. The importer's fleet calls these pickers for each request to chat.
func TestPeerListener_PicksNeedNoOpenPicker(t *testing.T) {
	const open = "--picker-open"
	s := newQuietSite(t)
	s.ready("east", "north")
	exporters := []*cluster{s.east, s.north}
	s.listenForMembers(15443)
	for _, c := range exporters {
		c.arguments(func(args []string) []string {
			return slices.DeleteFunc(args, func(a string) bool { return a == open })
		})
	}
	s.imported("chat", "the exporters' pickers are for members", func(entries map[string]map[string]any) error {
		for _, c := range exporters {
			if text := fmt.Sprint(entries[c.Name]["endpointPicker"]); !strings.Contains(text, "peer") {
				return fmt.Errorf("the picker of %s: got %s, want one for peers", c.Name, text)
			}
		}
		return nil
	})
	s.begins("chat")
	for _, c := range exporters {
		before := c.picks()
		c.Until("members pick from "+c.Name, func(context.Context) error {
			if now := c.picks(); now < before+10 {
				return fmt.Errorf("%g picks, want %g", now, before+10)
			}
			return nil
		})
	}
	s.load.End()
	s.load.counted()
	s.listenForMembers(0)
	for _, c := range exporters {
		c.arguments(func(args []string) []string { return append(args, open) })
	}
	s.begins(pools...)
	s.ends()
}

// listenForMembers makes the Gateways of both exporters listen for members at a port; 0 disables
// it.
func (s *site) listenForMembers(port int) {
	s.Helper()
	for _, c := range []*cluster{s.east, s.north} {
		set := spec(c.Member, false, c.Others(members)...)
		set.PeerListener = port
		if err := c.Join(c.Context(), set); err != nil {
			s.Fatal(err)
		}
	}
}

func (c *cluster) arguments(change func([]string) []string) {
	c.Helper()
	d, err := c.AppsV1().Deployments(installed.System).Get(c.Context(), "penstock", metav1.GetOptions{})
	if err == nil {
		container := &d.Spec.Template.Spec.Containers[0]
		container.Args = change(container.Args)
		_, err = c.AppsV1().Deployments(installed.System).Update(c.Context(), d, metav1.UpdateOptions{})
	}
	if err != nil {
		c.Fatal(err)
	}
	c.RolledOut(installed.System, "penstock")
}

func (c *cluster) picks() (sum float64) {
	c.Helper()
	list, err := c.Processes(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	for _, p := range list {
		resp, err := http.Get("http://" + p.Status.PodIP + ":9090/metrics")
		if err != nil {
			c.Fatal(err)
		}
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			if text, ok := strings.CutPrefix(lines.Text(),
				`penstock_picker_picks_total{pool="team/chat",result="picked"} `); ok {
				n, err := strconv.ParseFloat(text, 64)
				if err != nil {
					c.Fatal(err)
				}
				sum += n
			}
		}
		_ = resp.Body.Close()
		if err := lines.Err(); err != nil {
			c.Fatal(err)
		}
	}
	return sum
}
