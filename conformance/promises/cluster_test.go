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
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/conformance/installed"
	"github.com/penstock-project/penstock/conformance/lab"
)

// patience is how long a test waits for what must come. It is generous: nothing here measures time.
const patience = 2 * time.Minute

// system is where Penstock itself is.
const system = "penstock-system"

// running is the lab that all tests share.
var running *lab.Lab

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "promises")
	if err != nil {
		return failed(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if running, err = installed.Start(ctx, lab.Config{Dir: dir, Audit: true}); err != nil {
		return failed(err)
	}
	code := m.Run()
	if err := running.Down(); err != nil {
		return failed(err)
	}
	return code
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// place is a namespace of a test's own.
type place struct {
	*testing.T
	*kubernetes.Clientset
	dynamic   dynamic.Interface
	rest      *rest.Config
	namespace string
}

// anywhere is a place in no namespace yet.
func anywhere(t *testing.T) place {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", running.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	p := place{T: t, rest: config}
	if p.Clientset, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	if p.dynamic, err = dynamic.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	return p
}

func newPlace(t *testing.T) place {
	t.Helper()
	p := anywhere(t)
	ns, err := p.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.namespace = ns.Name
	t.Cleanup(func() { // its proxies would take the CPU that the next tests need
		if t.Failed() {
			p.tell()
		}
		if err := p.CoreV1().Namespaces().Delete(context.Background(), p.namespace, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	return p
}

// tell shows what a person would look at first.
func (p place) tell() {
	pods, err := p.CoreV1().Pods(p.namespace).List(context.Background(), metav1.ListOptions{})
	if err != nil {
		p.Error(err)
		return
	}
	for _, pod := range pods.Items {
		log, _ := p.CoreV1().Pods(p.namespace).GetLogs(pod.Name, &corev1.PodLogOptions{TailLines: new(int64(20)), Container: pod.Spec.Containers[0].Name}).DoRaw(context.Background())
		p.Logf("pod %s, %s, ready: %v:\n%s", pod.Name, pod.Status.Phase, ready(&pod), log)
	}
}

// apply does what kubectl apply does; namespace, if nothing else is said, is the place's.
func (p place) apply(manifests string) {
	p.Helper()
	if err := installed.Apply(p.Context(), p.rest, p.namespace, []byte(manifests)); err != nil {
		p.Fatal(err)
	}
}

// until polls a condition until it holds.
func (p place) until(what string, f func(context.Context) error) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	for {
		err := f(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			p.Fatalf("%s: %v", what, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// gateway reads a Gateway.
func (p place) gateway(ctx context.Context, name string) (*gatewayv1.Gateway, error) {
	u, err := p.dynamic.Resource(gateways).Namespace(p.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	gw := &gatewayv1.Gateway{}
	return gw, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, gw)
}

// route reads an HTTPRoute.
func (p place) route(ctx context.Context, name string) (*gatewayv1.HTTPRoute, error) {
	u, err := p.dynamic.Resource(kindOf(gatewayv1.GroupName, "v1", "httproutes")).Namespace(p.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	route := &gatewayv1.HTTPRoute{}
	return route, runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, route)
}

// programmed waits until a Gateway's newest form is programmed, and returns its addresses.
func (p place) programmed(name string) (addresses []string) {
	p.Helper()
	p.until("Gateway "+name+" is programmed", func(ctx context.Context) error {
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
			return errors.New("it has no address")
		}
		return nil
	})
	return addresses
}

// holds says what keeps a condition from having a status for a generation.
func holds(conditions []metav1.Condition, typ string, status metav1.ConditionStatus, generation int64) error {
	for _, c := range conditions {
		if c.Type == typ && c.Status == status && c.ObservedGeneration == generation {
			return nil
		}
	}
	return fmt.Errorf("%s is not %s for generation %d: %+v", typ, status, generation, conditions)
}

// pods are those of a fleet, or of Penstock, that are not about to go.
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

func ready(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// rolledOut waits until a Deployment runs what its newest form says, and nothing older: pods that drain included.
func (p place) rolledOut(namespace, name string) *appsv1.Deployment {
	p.Helper()
	var d *appsv1.Deployment
	p.until("the rollout of "+name, func(ctx context.Context) (err error) {
		if d, err = p.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		n := *d.Spec.Replicas
		if s := d.Status; s.ObservedGeneration < d.Generation || s.UpdatedReplicas != n || s.AvailableReplicas != n || s.Replicas != n {
			return fmt.Errorf("%+v", s)
		}
		pods, err := p.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(d.Spec.Selector)})
		if err != nil || len(pods.Items) != int(n) {
			return fmt.Errorf("%d pods of %d: %w", len(pods.Items), n, err)
		}
		return nil
	})
	return d
}

// answers waits until a URL is answered with 200.
func (p place) answers(url string) {
	p.Helper()
	p.until(url+" answers", func(ctx context.Context) error { return fetch(ctx, http.MethodGet, url, "", true) })
}

func kindOf(group, version, plural string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: group, Version: version, Resource: plural}
}

// gateways is where Gateways are.
var gateways = kindOf(gatewayv1.GroupName, "v1", "gateways")

// envoys selects a Gateway's pods.
func envoys(gateway string) string { return "gateway.networking.k8s.io/gateway-name=" + gateway }

// names of pods, for messages.
func podNames(pods []corev1.Pod) string {
	var list []string
	for _, pod := range pods {
		list = append(list, pod.Name)
	}
	return strings.Join(list, ", ")
}
