//go:build lab && linux

package members

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/penstock-project/penstock/conformance/lab/installed"
	"github.com/penstock-project/penstock/conformance/lab/labtest"
)

// signal sends a signal to a process in each pod with a label: the process with the argument arg.
// It returns the time.
func (c *cluster) signal(label, arg string, s syscall.Signal) time.Time {
	c.Helper()
	list, err := c.CoreV1().Pods(team).List(c.Context(), metav1.ListOptions{LabelSelector: label})
	if err != nil || len(list.Items) == 0 {
		c.Fatalf("pods with label %s: got %v, %d, want some", label, err, len(list.Items))
	}
	var pids []int
	for _, pod := range list.Items {
		pids = append(pids, c.Process(pod, arg))
	}
	at := time.Now()
	for _, pid := range pids {
		if err := syscall.Kill(pid, s); err != nil {
			c.Fatal(err)
		}
	}
	return at
}

// lasts waits longer than any timeout for a missing part. Requests continue.
func (s *sender) lasts(t *testing.T, from time.Time) {
	t.Helper()
	labtest.Until(t, "some seconds have passed", func(context.Context) error {
		if left := time.Until(from.Add(10 * time.Second)); left > 0 {
			return fmt.Errorf("%s left, want none", left)
		}
		return nil
	})
	s.goes(t, 60)
}

func (s *sender) returns(t *testing.T) {
	t.Helper()
	for _, pool := range s.l.pools {
		before := s.l.count(pool, "east")
		labtest.Until(t, "east serves "+pool+" again", func(context.Context) error {
			if n := s.l.count(pool, "east") - before; n < 5 {
				return fmt.Errorf("%d requests, want 5", n)
			}
			return nil
		})
	}
}

// All processes of an exporter's Penstock are killed at once, and with them the picker of pool
// chat. The other cluster serves.
func TestClusterSet_KilledExporterWithThePickerIsReplacedByAnother(t *testing.T) {
	s := newSite(t)
	s.load.End()
	out := s.send(pools...)
	out.goes(t, 60)
	loss := time.Now()
	s.east.kill()
	out.lasts(t, loss)
	out.returns(t)
	out.lost(t, loss)
}

func TestClusterSet_LostPickerIsReplacedByAnotherCluster(t *testing.T) {
	for name, signals := range map[string][2]syscall.Signal{
		"killed": {syscall.SIGKILL, 0}, "frozen": {syscall.SIGSTOP, syscall.SIGCONT},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, "epp")
			s.load.End()
			out := s.send("epp")
			out.goes(t, 60)
			loss := s.east.signal("app.kubernetes.io/instance=epp", "picker", signals[0])
			out.lasts(t, loss)
			if signals[1] != 0 {
				s.east.signal("app.kubernetes.io/instance=epp", "picker", signals[1])
			}
			out.returns(t)
			out.lost(t, loss)
		})
	}
}

func TestClusterSet_LostServersAreReplacedByAnotherCluster(t *testing.T) {
	s := newSite(t)
	s.load.End()
	out := s.send(pools...)
	out.goes(t, 60)
	loss := s.east.signal("app=chat", "sim", syscall.SIGKILL)
	out.lasts(t, loss)
	out.returns(t)
	out.lost(t, loss)
}

func TestClusterSet_LostGatewayIsReplacedByAnotherCluster(t *testing.T) {
	s := newSite(t)
	s.load.End()
	s.east.address()
	s.east.annotate("export-mode", `"ParentMode"`)
	s.imports("east has ParentMode", func(entries map[string]map[string]any) error {
		if entries["east"]["routingMode"] != "ParentMode" {
			return fmt.Errorf("east is %v, want ParentMode", entries["east"])
		}
		return nil
	})
	s.ready("east", "north")
	out := s.send(pools...)
	out.returns(t)
	loss := s.east.signal("gateway.networking.k8s.io/gateway-name=gw", "/etc/penstock/bootstrap.yaml", syscall.SIGKILL)
	out.lasts(t, loss)
	out.returns(t)
	out.lost(t, loss)
	s.east.annotate("export-mode", "null")
	s.ready("east", "north")
}

const fullPolicy = `
apiVersion: penstock.dev/v1alpha1
kind: PoolPolicy
metadata: {name: full}
spec: {targetRef: {name: chat}, picker: {full: {inFlight: 1}}}
`

// While the servers of all clusters are full, requests are answered 429, and no request fails in
// another way. Once there is room, all requests are served.
func TestClusterSet_FullClustersAnswer429(t *testing.T) {
	s := newSite(t, "chat")
	s.load.End()
	for _, c := range []*cluster{s.east, s.north} {
		if err := installed.Apply(t.Context(), c.Config, team, []byte(fullPolicy)); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = c.kind("penstock.dev", "v1alpha1", "poolpolicies").Delete(context.Background(), "full",
				metav1.DeleteOptions{})
		})
	}
	var all []*sender
	for range 5 {
		all = append(all, s.send("chat"))
	}
	full := func() (n int) {
		for _, x := range all {
			n += x.failures("429")
		}
		return n
	}
	labtest.Until(t, "requests are answered 429", func(context.Context) error {
		if n := full(); n < 20 {
			return fmt.Errorf("requests that are denied as full: got %d, want 20", n)
		}
		return nil
	})
	for _, c := range []*cluster{s.east, s.north} {
		if err := c.kind("penstock.dev", "v1alpha1", "poolpolicies").Delete(t.Context(), "full",
			metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	labtest.Until(t, "all requests are served", func(context.Context) error {
		before := full()
		all[0].goes(t, 40)
		if n := full() - before; n > 0 {
			return fmt.Errorf("requests that are denied as full: got %d, want 0", n)
		}
		return nil
	})
	sent, failed := 0, 0
	for _, x := range all {
		x.stop()
		x.all.Wait()
		sent += len(x.list)
		for _, r := range x.list {
			if r.err != nil && !strings.Contains(r.err.Error(), "429") {
				if failed++; failed <= 3 {
					t.Errorf("%s failed, want it served or denied as full: %v", r.what, r.err)
				}
			}
		}
	}
	t.Logf("%d requests, %d answered 429, %d failed otherwise", sent, full(), failed)
}

func (s *sender) failures(text string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.list {
		if r.err != nil && strings.Contains(r.err.Error(), text) {
			n++
		}
	}
	return n
}

func TestClusterSet_ChangedSelectionLosesNoRequest(t *testing.T) {
	s := newSite(t)
	t.Cleanup(func() {
		for _, pool := range pools {
			_ = s.west.kind("penstock.dev", "v1alpha1", "poolpolicies").
				Delete(context.Background(), pool, metav1.DeleteOptions{})
		}
	})
	selects := func(selection string) {
		t.Helper()
		for _, pool := range pools {
			policy := fmt.Sprintf(
				"apiVersion: penstock.dev/v1alpha1\nkind: PoolPolicy\nmetadata: {name: %[1]s}\nspec: {targetRef: "+
					"{kind: InferencePoolImport, name: %[1]s}, selection: %[2]s}\n", pool, selection)
			if err := installed.Apply(t.Context(), s.west.Config, team, []byte(policy)); err != nil {
				t.Fatal(err)
			}
		}
	}
	only := func(cluster string) {
		t.Helper()
		other := map[string]string{"east": "north", "north": "east"}[cluster]
		s.load.serves(cluster)
		s.load.idles(other)
	}
	for range 2 {
		selects("{policy: LeastLoad}")
		s.load.serves("east", "north")
		selects("{policy: Priority, order: [north]}")
		only("north")
		selects("{policy: Priority, order: [east]}")
		only("east")
		selects("{policy: LeastLoad, affinity: None}")
		s.load.serves("east", "north")
		selects("{policy: Weighted}")
		s.load.serves("east", "north")
	}
	patch := []byte(`{"metadata": {"annotations": {"penstock.dev/export-weight": "3"}}}`)
	if _, err := s.east.kind("inference.networking.k8s.io", "v1", "inferencepools").
		Patch(t.Context(), "chat", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	s.load.serves("east", "north")
	if _, err := s.east.kind("inference.networking.k8s.io", "v1", "inferencepools").
		Patch(t.Context(), "chat", types.MergePatchType, []byte(strings.Replace(string(patch), `"3"`, "null", 1)),
			metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	s.ends()
}
