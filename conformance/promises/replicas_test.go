//go:build lab && linux

package promises

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (p place) kill(pod corev1.Pod) {
	p.Helper()
	if err := syscall.Kill(p.Process(pod, "serve"), syscall.SIGKILL); err != nil {
		p.Fatalf("kill %s: %v", pod.Name, err)
	}
}

// Any process of Penstock may be killed. No request is lost, changes take effect, and statuses are
// written.
func leaderKilled(p place) {
	p.apply(strings.Replace(chat+plainGateway, "replicas: 1", "replicas: 2", 1))
	address := p.programmed("gw")[0]
	t := p.load(address)
	pods := p.processes()
	for i, pod := range pods {
		p.kill(pod)
		if i == 0 { // delete the leader's pod, too, so that the other process must lead
			zero := int64(0)
			if err := p.CoreV1().Pods(system).Delete(p.Context(), pod.Name,
				metav1.DeleteOptions{GracePeriodSeconds: &zero}); err != nil {
				p.Fatal(err)
			}
		}
		p.apply(fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: new-%d}
spec:
  parentRefs: [{name: gw}]
  rules: [{matches: [{path: {value: /new-%[1]d}}], filters: [{type: URLRewrite, urlRewrite: {path: {type: ReplaceFullPath, replaceFullPath: /health}}}], backendRefs: [{name: chat, port: 80}]}]
`, i))
		p.answers(fmt.Sprintf("http://%s/new-%d", address, i))
		p.Until("the new route's status", func(ctx context.Context) error {
			return p.accepted(ctx, fmt.Sprintf("new-%d", i))
		})
		p.processes()
	}
	p.end(t)
}

func (p place) accepted(ctx context.Context, name string) error {
	route, err := p.route(ctx, name)
	if err != nil {
		return err
	}
	if len(route.Status.Parents) == 0 {
		return errors.New("its status has no parent")
	}
	return holds(route.Status.Parents[0].Conditions, "Accepted", metav1.ConditionTrue, route.Generation)
}
