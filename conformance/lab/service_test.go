//go:build lab && linux

package lab_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/conformance/lab/labtest"
)

// echo is a Deployment of an echo server that drains before it ends.
const echo = `
metadata: {name: echo}
spec:
  replicas: 2
  selector: {matchLabels: {app: echo}}
  strategy: {rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}
  template:
    metadata: {labels: {app: echo}}
    spec:
      terminationGracePeriodSeconds: 10
      containers:
      - name: echo
        image: registry.k8s.io/gateway-api/echo-basic:v1.5.1
        env:
        - {name: HTTP_PORT, value: "80"}
        - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
        readinessProbe: {httpGet: {path: /health, port: 80}, periodSeconds: 1}
        lifecycle: {preStop: {sleep: {seconds: 4}}}
`

func (p place) serve() string {
	p.Helper()
	d := &appsv1.Deployment{}
	if err := yaml.UnmarshalStrict([]byte(echo), d); err != nil {
		p.Fatal(err)
	}
	if _, err := p.AppsV1().Deployments(p.Namespace).Create(p.Context(), d, metav1.CreateOptions{}); err != nil {
		p.Fatal(err)
	}
	_, err := p.CoreV1().Services(p.Namespace).Create(p.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "echo"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": "echo"},
			Ports: []corev1.ServicePort{{Port: 8080, TargetPort: intstr.FromInt32(80)}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		p.Fatal(err)
	}
	p.RolledOut(p.Namespace, "echo")
	var addr string
	p.Until("a LoadBalancer's address", func(ctx context.Context) error {
		s, err := p.CoreV1().Services(p.Namespace).Get(ctx, "echo", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if len(s.Status.LoadBalancer.Ingress) == 0 {
			return fmt.Errorf("the Service has no address, want one")
		}
		addr = s.Status.LoadBalancer.Ingress[0].IP + ":8080"
		return nil
	})
	p.Until("an answer", func(ctx context.Context) error { return labtest.Get(ctx, "http://"+addr) })
	return addr
}

func TestDeployment_RolloutLosesNoRequest(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "lab1")
	addr := p.serve()
	_, err := p.AppsV1().Deployments(p.Namespace).Patch(t.Context(), "echo", "application/merge-patch+json",
		[]byte(`{"spec":{"template":{"metadata":{"annotations":{"roll":"1"}}}}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lost := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if err := labtest.Get(context.WithoutCancel(ctx), "http://"+addr); err != nil {
				lost <- err
				return
			}
		}
		lost <- nil
	}()
	p.RolledOut(p.Namespace, "echo")
	cancel()
	if err := <-lost; err != nil {
		t.Errorf("a request was lost: %v", err)
	}
}

func TestDeployment_DeletedPodIsReplaced(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "lab2")
	addr := p.serve()
	zero := int64(0)
	if err := p.CoreV1().Pods(p.Namespace).DeleteCollection(t.Context(),
		metav1.DeleteOptions{GracePeriodSeconds: &zero}, metav1.ListOptions{LabelSelector: "app=echo"}); err != nil {
		t.Fatal(err)
	}
	p.RolledOut(p.Namespace, "echo")
	p.Until("an answer", func(ctx context.Context) error { return labtest.Get(ctx, "http://"+addr) })
}

// Pods resolve Services by name and reach them, including Services of which they are endpoints.
// Pods reach pods and LoadBalancers of another cluster.
func TestService_PodsReachNamesAndOtherClusters(t *testing.T) {
	t.Parallel()
	far := newPlace(t, "lab2")
	addr := far.serve()
	pods, err := far.CoreV1().Pods(far.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=echo"})
	if err != nil {
		t.Fatal(err)
	}
	near := newPlace(t, "lab1")
	near.serve()
	near.pod(fmt.Sprintf(`
metadata: {name: asks}
spec:
  restartPolicy: OnFailure
  containers:
  - name: main
    image: shell
    command: [bash, -c]
    args:
    - |
      ask() { exec 3<>/dev/tcp/$1/$2 || exit 1; printf 'GET / HTTP/1.0\r\n\r\n' >&3; head -1 <&3; }
      echo "name $(ask echo 8080)"
      echo "full name $(ask echo.%[1]s.svc.cluster.local 8080)"
      echo "far pod $(ask %[2]s 80)"
      echo "far balancer $(ask %[3]s 8080)"
`, near.Namespace, pods.Items[0].Status.PodIP, strings.TrimSuffix(addr, ":8080")))
	near.logged("asks", "main", "\nfull name HTTP/1.0 200", "name HTTP/1.0 200", "far pod HTTP/1.0 200",
		"far balancer HTTP/1.0 200")
}
