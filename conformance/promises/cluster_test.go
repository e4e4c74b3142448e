//go:build lab && linux

package promises

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/conformance/lab"
	"github.com/penstock-project/penstock/conformance/lab/installed"
	"github.com/penstock-project/penstock/conformance/lab/labtest"
)

const system = "penstock-system"

var running *lab.Lab

func TestMain(m *testing.M) {
	os.Exit(labtest.Main(m, func(ctx context.Context, dir string) (l *lab.Lab, err error) {
		running, err = installed.Start(ctx, lab.Config{Dir: dir, Audit: true})
		return running, err
	}, nil))
}

type place struct {
	labtest.Place
	dynamic dynamic.Interface
}

func newPlace(t *testing.T) place {
	t.Helper()
	p := place{Place: labtest.NewPlace(t, running.Kubeconfig(), "")}
	var err error
	if p.dynamic, err = dynamic.NewForConfig(p.REST); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // the namespace's proxies would take CPU from the next tests
		if t.Failed() {
			p.logPods()
		}
		if err := p.CoreV1().Namespaces().Delete(context.Background(), p.Namespace,
			metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p place) logPods() {
	pods, err := p.CoreV1().Pods(p.Namespace).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		p.Error(err)
		return
	}
	for _, pod := range pods.Items {
		log, _ := p.CoreV1().Pods(p.Namespace).GetLogs(pod.Name,
			&corev1.PodLogOptions{TailLines: new(int64(20)), Container: pod.Spec.Containers[0].Name}).DoRaw(
			context.Background())
		p.Logf("pod %s, %s, ready: %v:\n%s", pod.Name, pod.Status.Phase, labtest.Ready(pod.Status), log)
	}
}

func (p place) apply(manifests string) {
	p.Helper()
	if err := installed.Apply(p.Context(), p.REST, p.Namespace, []byte(manifests)); err != nil {
		p.Fatal(err)
	}
}

func (p place) gateway(ctx context.Context, name string) (*gatewayv1.Gateway, error) {
	u, err := p.dynamic.Resource(gateways).Namespace(p.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	gw := &gatewayv1.Gateway{}
	return gw, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, gw)
}

func (p place) route(ctx context.Context, name string) (*gatewayv1.HTTPRoute, error) {
	u, err := p.dynamic.Resource(kindOf(gatewayv1.GroupName, "v1", "httproutes")).Namespace(p.Namespace).
		Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	route := &gatewayv1.HTTPRoute{}
	return route, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, route)
}

func (p place) programmed(name string) (addresses []string) {
	p.Helper()
	p.Until("Gateway "+name+" is programmed", func(ctx context.Context) error {
		gw, err := p.gateway(ctx, name)
		if err != nil {
			return err
		}
		if err := holds(gw.Status.Conditions, "Programmed", metav1.ConditionTrue, gw.Generation); err != nil {
			return err
		}
		addresses = nil
		for _, a := range gw.Status.Addresses {
			addresses = append(addresses, a.Value)
		}
		if len(addresses) == 0 {
			return errors.New("its status has no address")
		}
		return nil
	})
	return addresses
}

func holds(conditions []metav1.Condition, typ string, status metav1.ConditionStatus, generation int64) error {
	for _, c := range conditions {
		if c.Type == typ && c.Status == status && c.ObservedGeneration == generation {
			return nil
		}
	}
	return fmt.Errorf("%s: got %+v, want %s for generation %d", typ, conditions, status, generation)
}

// pods returns the selected pods that are not being deleted.
func (p place) pods(ctx context.Context, namespace, selector string) (out []corev1.Pod, err error) {
	list, err := p.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	for _, pod := range list.Items {
		if pod.DeletionTimestamp == nil {
			out = append(out, pod)
		}
	}
	return out, nil
}

func (p place) answers(url string) {
	p.Helper()
	p.Until(url+" answers", func(ctx context.Context) error { return fetch(ctx, http.MethodGet, url, "", true) })
}

func kindOf(group, version, plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: plural}
}

var gateways = kindOf(gatewayv1.GroupName, "v1", "gateways")

func envoys(gateway string) string { return "gateway.networking.k8s.io/gateway-name=" + gateway }

func podNames(pods []corev1.Pod) string {
	var list []string
	for _, pod := range pods {
		list = append(list, pod.Name)
	}
	return strings.Join(list, ", ")
}
