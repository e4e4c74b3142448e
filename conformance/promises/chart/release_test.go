//go:build lab && linux

package chart

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/penstock-project/penstock/conformance/lab"
	"github.com/penstock-project/penstock/conformance/lab/installed"
	"github.com/penstock-project/penstock/conformance/lab/labtest"
)

const web = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: "registry.k8s.io/gateway-api/echo-basic:v1.5.1", env: [{name: POD_NAME, value: web}], readinessProbe: {httpGet: {path: /health, port: 3000}, periodSeconds: 1}}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 3000}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: web}
spec: {parentRefs: [{name: gw}], rules: [{backendRefs: [{name: web, port: 80}]}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec: {gatewayClassName: penstock, listeners: [{name: http, port: 80, protocol: HTTP}]}
`

// replaceCRDs applies a chart's CRDs: Helm does not replace existing CRDs, and Penstock's CRD has
// more fields than the inference extension's.
func replaceCRDs(t *testing.T, p labtest.Place, chart string) {
	t.Helper()
	files, err := filepath.Glob(chart + "/crds/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("CRDs: got %v, %d files, want some", err, len(files))
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := installed.Apply(t.Context(), p.REST, "", text); err != nil {
			t.Fatal(err)
		}
	}
}

// The README's steps install Penstock, change its settings and uninstall it. A request is served
// after each step in which Penstock runs.
func TestHelm_ReleaseInstallsUpgradesAndUninstalls(t *testing.T) {
	r := prepare(t)
	p := r.place
	release := func(verb string, args ...string) {
		t.Helper()
		helm(t,
			append([]string{verb, "penstock", "--namespace", system, "--kubeconfig", r.lab.Kubeconfig(), "--wait",
				"--timeout", labtest.Timeout.String()}, args...)...)
	}

	replaceCRDs(t, p, chartDir)
	release("install", chartDir, "--create-namespace")
	r.replicas(2, "")
	if err := installed.Apply(t.Context(), p.REST, p.Namespace, []byte(web)); err != nil {
		t.Fatal(err)
	}
	r.served()

	release("upgrade", chartDir, "--set", "replicas=1,resources.limits.memory=512Mi")
	r.replicas(1, "--memory-limit=536870912")
	r.served()

	// With watchNamespaces, Penstock ignores objects of all other namespaces. Its writes pass the
	// admission policy.
	release("upgrade", chartDir, "--set", "replicas=1,watchNamespaces={"+p.Namespace+"}")
	r.replicas(1, "--watch-namespaces="+p.Namespace)
	if _, err := p.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().
		Get(t.Context(), "penstock", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := p.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "unwatched"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := installed.Apply(t.Context(), p.REST, "unwatched", []byte(web)); err != nil {
		t.Fatal(err)
	}
	r.listens(8080)
	r.served()
	for _, ns := range []string{p.Namespace, "unwatched"} {
		_, err := p.NetworkingV1().NetworkPolicies(ns).Get(t.Context(), "gw-penstock", metav1.GetOptions{})
		if watched := ns == p.Namespace; (err == nil) != watched {
			t.Errorf("namespace %s: NetworkPolicy of a fleet: got %v, want it in the watched one alone", ns, err)
		}
	}

	if err := r.gateways.Namespace(p.Namespace).Delete(t.Context(), "gw", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	p.Until("the Deployment of its proxies is deleted", func(ctx context.Context) error {
		return none(p.AppsV1().Deployments(p.Namespace).Get(ctx, "gw-penstock", metav1.GetOptions{}))
	})
	release("uninstall")
	for what, gone := range map[string]func(context.Context) error{
		"the Deployment": func(ctx context.Context) error {
			return none(p.AppsV1().Deployments(system).Get(ctx, "penstock", metav1.GetOptions{}))
		},
		"the class": func(ctx context.Context) error {
			return none(r.classes.Get(ctx, "penstock", metav1.GetOptions{}))
		},
		"the ClusterRole": func(ctx context.Context) error {
			return none(p.RbacV1().ClusterRoles().Get(ctx, "penstock", metav1.GetOptions{}))
		},
	} {
		p.Until(what+" is gone", gone)
	}
	if _, err := r.fleets.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("the CRDs were deleted, and all their objects: %v", err)
	}
}

func none(_ any, err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return errors.Join(errors.New("it still exists"), err)
}

type releases struct {
	lab                       *lab.Lab
	place                     labtest.Place
	gateways, classes, fleets dynamic.NamespaceableResourceInterface
}

func prepare(t *testing.T) *releases {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	own := t.TempDir()
	kinds, err := lab.CRDs(ctx, own, "")
	if err != nil {
		t.Fatal(err)
	}
	kinds = slices.DeleteFunc(kinds, func(folder string) bool { return strings.HasPrefix(folder, own) })
	r := &releases{}
	r.lab, _ = startLab(ctx, t, "chart", lab.Config{CRDs: kinds})
	r.place = labtest.NewPlace(t, r.lab.Kubeconfig(), "")
	r.clients()
	return r
}

func (r *releases) clients() {
	r.place.Helper()
	client, err := dynamic.NewForConfig(r.place.REST)
	if err != nil {
		r.place.Fatal(err)
	}
	resources := func(group, version, plural string) dynamic.NamespaceableResourceInterface {
		return client.Resource(schema.GroupVersionResource{Group: group, Version: version, Resource: plural})
	}
	r.gateways, r.classes = resources("gateway.networking.k8s.io", "v1", "gateways"),
		resources("gateway.networking.k8s.io", "v1", "gatewayclasses")
	r.fleets = resources("penstock.dev", "v1alpha1", "envoyfleets")
}

// replicas checks that n processes of Penstock are ready after Helm's --wait, and have the argument
// arg.
func (r *releases) replicas(n int32, arg string) {
	r.place.Helper()
	p := r.place
	d, err := p.AppsV1().Deployments(system).Get(p.Context(), "penstock", metav1.GetOptions{})
	if err != nil {
		p.Fatal(err)
	}
	if s := d.Status; s.UpdatedReplicas != n || s.AvailableReplicas != n {
		p.Errorf("status after Helm: got %+v, want %d replicas, updated and available", s, n)
	}
	if arg == "" {
		return
	}
	pods, err := p.CoreV1().Pods(system).List(p.Context(),
		metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=penstock"})
	if err != nil {
		p.Fatal(err)
	}
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp == nil {
			p.Process(pod, arg)
		}
	}
}

func (r *releases) listens(port int64) {
	r.place.Helper()
	p := r.place
	patch := fmt.Sprintf(
		`[{"op": "add", "path": "/spec/listeners/-", "value": {"name": "more", "port": %d, "protocol": "HTTP"}}]`, port)
	if _, err := r.gateways.Namespace(p.Namespace).Patch(p.Context(), "gw", types.JSONPatchType, []byte(patch),
		metav1.PatchOptions{}); err != nil {
		p.Fatal(err)
	}
	p.Until("the Service has the new port", func(ctx context.Context) error {
		s, err := p.CoreV1().Services(p.Namespace).Get(ctx, "gw-penstock", metav1.GetOptions{})
		if err == nil && !slices.ContainsFunc(s.Spec.Ports,
			func(have corev1.ServicePort) bool { return int64(have.Port) == port }) {
			err = fmt.Errorf("ports %v, want %d", s.Spec.Ports, port)
		}
		return err
	})
}

func (r *releases) served() {
	r.place.Helper()
	p := r.place
	var address string
	p.Until("the Gateway is programmed", func(ctx context.Context) (err error) {
		address, err = r.address(ctx)
		return err
	})
	p.Until("an answer", func(ctx context.Context) error { return labtest.Get(ctx, "http://"+address) })
}

func (r *releases) address(ctx context.Context) (string, error) {
	gw, err := r.gateways.Namespace(r.place.Namespace).Get(ctx, "gw", metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	list, _, _ := unstructured.NestedSlice(gw.Object, "status", "addresses")
	if text := fmt.Sprint(gw.Object["status"]); len(list) == 0 || !strings.Contains(text, "reason:Programmed") {
		return "", errors.New(text)
	}
	return fmt.Sprint(list[0].(map[string]any)["value"]), nil
}
