//go:build lab && linux

package members

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// For a picker's Service of type NodePort, importers get the nodes that run the picker's pods, and
// the nodes' port. The lab serves no NodePorts, so the test sends no request.
func TestClusterSet_NodePortOfAPickerIsAtItsNodes(t *testing.T) {
	s := newQuietSite(t)
	s.ready("east", "north")
	patch := func(kind string) (port int32) {
		t.Helper()
		svc, err := s.east.CoreV1().Services(team).Patch(context.WithoutCancel(t.Context()), "epp-epp",
			types.MergePatchType, fmt.Appendf(nil, `{"spec": {"type": %q}}`, kind), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return svc.Spec.Ports[0].NodePort
	}
	before, err := s.east.CoreV1().Services(team).Get(t.Context(), "epp-epp", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { patch(string(before.Spec.Type)) })
	port := patch("NodePort")
	list, err := s.east.CoreV1().Pods(team).List(t.Context(),
		metav1.ListOptions{
			LabelSelector: metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: before.Spec.Selector}),
		})
	if err != nil || len(list.Items) == 0 {
		t.Fatalf("pods of the picker: got %v %v, want some", list, err)
	}
	s.west.Until("the import has the node's address", func(ctx context.Context) error {
		u, err := s.west.kind("inference.networking.x-k8s.io", "v1alpha1", "inferencepoolimports").
			Get(ctx, "epp", metav1.GetOptions{})
		if err != nil {
			return err
		}
		raw, err := json.Marshal(u.Object["status"])
		if err != nil {
			return err
		}
		if want := fmt.Sprintf(`"addresses":[%q],"ports":[{`,
			list.Items[0].Status.HostIP); !strings.Contains(string(raw), want) ||
			!strings.Contains(string(raw), fmt.Sprintf(`"number":%d`, port)) {
			return fmt.Errorf("got %s, want %s with port %d", raw, want, port)
		}
		return nil
	})
}
