//go:build lab && linux

package lab_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/penstock-project/penstock/conformance/lab"
	"github.com/penstock-project/penstock/conformance/lab/labtest"
	"github.com/penstock-project/penstock/conformance/lab/network"
)

// asks is a pod that calls another cluster's Service in a loop, on a new connection each time. It
// logs the answer's first line, or a timeout after a second.
const asks = `
metadata: {name: asks}
spec:
  containers:
  - name: main
    image: shell
    command: [bash, -c]
    args:
    - |
      for i in $(seq 100000); do
        answer=$(timeout 1 bash -c 'exec 3<>/dev/tcp/%[1]s/8080 || exit 7; printf "GET / HTTP/1.0\r\n\r\n" >&3; head -1 <&3' 2>/dev/null)
        echo "$i $? $answer"
        sleep 0.1
      done
`

// A link's effect applies to pods and LoadBalancers, whether Lab.Link or the command lab sets the
// effect. The test is not parallel, because other tests use the link.
func TestLink_EffectsReachPodsAndLoadBalancersUntilTheLinkIsHealed(t *testing.T) {
	far, near := newPlace(t, "lab2"), newPlace(t, "lab1")
	addr := far.serve()
	t.Cleanup(func() {
		if err := running.Link(context.WithoutCancel(t.Context()),
			lab.Link{From: "lab1", To: "lab2", Fault: network.Fault{Effect: network.Heal}}); err != nil {
			t.Error(err)
		}
	})
	near.pod(fmt.Sprintf(asks, strings.TrimSuffix(addr, ":8080")))
	next := func(what, exit string) {
		t.Helper()
		log, err := near.PodLog(t.Context(), near.Namespace, "asks", "main", false)
		if err != nil {
			t.Fatal(err)
		}
		seen := strings.Count(log, "\n")
		near.Until(what, func(ctx context.Context) error {
			log, err := near.PodLog(ctx, near.Namespace, "asks", "main", false)
			if err != nil {
				return err
			}
			lines := strings.Split(strings.TrimSpace(log), "\n")
			if len(lines) < seen+4 {
				return fmt.Errorf("%d lines after %d, want 4 more", len(lines), seen)
			}
			for _, line := range lines[len(lines)-3:] {
				if !strings.Contains(line+" ", exit) {
					return fmt.Errorf("the last attempts: got %q, want %s in each", lines[len(lines)-3:], exit)
				}
			}
			return nil
		})
	}
	set := func(oneWay bool, f network.Fault) {
		t.Helper()
		if err := running.Link(t.Context(), lab.Link{From: "lab1", To: "lab2", OneWay: oneWay, Fault: f}); err != nil {
			t.Fatal(err)
		}
	}
	const served, waits, reset = " 0 HTTP/1.0 200", " 124 ", " 7 "
	near.Until("the pod runs", func(ctx context.Context) error {
		_, err := near.PodLog(ctx, near.Namespace, "asks", "main", false)
		return err
	})
	next("the Service answers", served)
	set(false, network.Fault{Effect: network.Cut})
	next("the cut link does not answer", waits)
	if err := labtest.Get(t.Context(), "http://"+addr); err != nil {
		t.Errorf("a client outside the clusters: %v", err)
	}
	set(true, network.Fault{Effect: network.Heal})
	next("without replies there is no answer", waits)
	set(false, network.Fault{Effect: network.Reject})
	next("connections are reset", reset)
	set(false, network.Fault{Effect: network.Cut, Port: 9})
	next("another port is not concerned", served)
	command := exec.CommandContext(t.Context(), "../../bin/lab", "link", "reject", "lab1", "lab2", "--port", "8080",
		"--dir", dir(t))
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	next("the port is reset", reset)
	set(false, network.Fault{Effect: network.Heal})
	next("the healed link answers", served)
	if err := running.Link(t.Context(),
		lab.Link{From: "lab1", To: "lab9", Fault: network.Fault{Effect: network.Cut}}); err == nil ||
		!strings.Contains(err.Error(), `"lab9"`) {
		t.Errorf(`a cluster that does not exist: got %v, want "lab9"`, err)
	}
}

func dir(t *testing.T) string {
	t.Helper()
	return strings.TrimSuffix(running.Kubeconfig(), "/kubeconfig")
}
