//go:build lab

package apiserver

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/conformance/lab/labtest"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/xds/fleet/apply"
	"github.com/penstock-project/penstock/xds/fleet/render"
)

const (
	system  = "penstock-system"
	account = "system:serviceaccount:" + system + ":penstock"
	fleetOf = "gw-penstock"
)

// limited is an API server with the ValidatingAdmissionPolicy of Penstock's manifests. RBAC allows
// Penstock's service account everything, so only the policy denies requests.
type limited struct {
	*server
	as       *rest.Config // Penstock's service account
	penstock dynamic.Interface
	cluster  *apply.Cluster
}

func limit(t *testing.T) *limited {
	t.Helper()
	l := &limited{server: start(t)}
	l.install(t, "gateways", "gatewayclasses", "httproutes")
	l.create(t, "namespaces", "{apiVersion: v1, kind: Namespace, metadata: {name: "+system+"}}")
	l.create(t, "clusterrolebindings",
		"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: all}, roleRef: "+
			"{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}, subjects: [{apiGroup: "+
			"rbac.authorization.k8s.io, kind: User, name: '"+account+"'}]}")
	for _, u := range manifestsOf(t, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding") {
		if _, err := l.client.Resource(schema.GroupVersionResource{
			Group: "admissionregistration.k8s.io", Version: "v1", Resource: plural(u.GetKind()),
		}).Create(t.Context(), u, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	l.as = rest.CopyConfig(l.rest)
	l.as.Impersonate.UserName = account
	var err error
	if l.penstock, err = dynamic.NewForConfig(l.as); err != nil {
		t.Fatal(err)
	}
	if l.cluster, err = apply.New(apply.Config{REST: l.as, Changed: func(apply.Ref) {}}); err != nil {
		t.Fatal(err)
	}
	labtest.Until(t, "the policy takes effect", func(context.Context) error {
		err := l.write("create", "configmaps", "default", "",
			"{apiVersion: v1, kind: ConfigMap, metadata: {generateName: unlabeled-}}")
		if err == nil {
			return errors.New("not yet")
		}
		return nil
	})
	return l
}

func manifestsOf(t *testing.T, kinds ...string) (out []*unstructured.Unstructured) {
	t.Helper()
	text, err := os.ReadFile("../../../manifests/install/penstock.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		u := &unstructured.Unstructured{}
		if err = errors.Join(err, yaml.Unmarshal(document, &u.Object)); err != nil {
			t.Fatal(err)
		}
		for _, kind := range kinds {
			if u.GetKind() == kind {
				out = append(out, u)
			}
		}
	}
	if len(out) != len(kinds) {
		t.Fatalf("%d objects of kinds %v, want %d", len(out), kinds, len(kinds))
	}
	return out
}

func plural(kind string) string {
	kind = strings.ToLower(kind)
	switch {
	case strings.HasSuffix(kind, "s"):
		return kind + "es"
	case strings.HasSuffix(kind, "y"):
		return strings.TrimSuffix(kind, "y") + "ies"
	}
	return kind + "s"
}

var groups = map[string]schema.GroupVersion{
	"deployments": {Group: "apps", Version: "v1"}, "leases": {Group: "coordination.k8s.io", Version: "v1"},
	"gateways": gatewayKind("").GroupVersion(), "gatewayclasses": gatewayKind("").GroupVersion(),
	"httproutes":   gatewayKind("").GroupVersion(),
	"clusterroles": {Group: "rbac.authorization.k8s.io", Version: "v1"},
}

// write sends a request as Penstock's service account. verb is create, delete or patch; after a
// slash, it names a subresource to create.
func (l *limited) write(verb, resource, namespace, name, body string) error {
	gv, ok := groups[resource]
	if !ok {
		gv = schema.GroupVersion{Version: "v1"}
	}
	client := dynamic.ResourceInterface(l.penstock.Resource(gv.WithResource(resource)))
	if namespace != "" {
		client = l.penstock.Resource(gv.WithResource(resource)).Namespace(namespace)
	}
	verb, sub, _ := strings.Cut(verb, "/")
	var subs []string
	if sub != "" {
		subs = []string{sub}
	}
	ctx := context.Background()
	switch verb {
	case "delete":
		return client.Delete(ctx, name, metav1.DeleteOptions{})
	case "patch":
		json, err := yaml.YAMLToJSON([]byte(body))
		if err == nil {
			_, err = client.Patch(ctx, name, types.MergePatchType, json, metav1.PatchOptions{}, subs...)
		}
		return err
	}
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(body), &u.Object); err != nil {
		return err
	}
	if name != "" {
		u.SetName(name)
	}
	_, err := client.Create(ctx, u, metav1.CreateOptions{}, subs...)
	return err
}

func (l *limited) objects(t *testing.T, gw *unstructured.Unstructured, replicas int32) []render.Object {
	t.Helper()
	gateway := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "gw", UID: gw.GetUID()}}
	gateway.Spec.GatewayClassName = "penstock"
	out, err := render.Objects(render.Settings{ADS: []string{"penstock:18000"}, CA: []byte("ca"), EnvoyImage: "envoy",
		PenstockImage: "penstock"}, render.Fleet{
		Gateway: gateway, Ports: []render.Port{{Number: 80, Name: "http"}}, Spec: &v1alpha1.EnvoyFleetSpec{
			Autoscaling: &v1alpha1.FleetAutoscaling{MaxReplicas: replicas},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAdmissionPolicy_AllowsWhatPenstockWrites(t *testing.T) {
	l := limit(t)
	l.create(t, "gatewayclasses", objects[0].text())
	l.create(t, "gateways", objects[1].text())
	gw, err := l.client.Resource(gatewayKind("gateways")).Namespace("default").
		Get(t.Context(), "gw", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, replicas := range []int32{3, 4} {
		for _, o := range l.objects(t, gw, replicas) {
			if err := l.cluster.Apply(t.Context(), o, fmt.Sprint(replicas), replicas == 4); err != nil {
				t.Error(err)
			}
		}
	}
	for _, o := range l.cluster.Objects("default", fleetOf) {
		if err := l.cluster.Delete(t.Context(), o); err != nil {
			t.Error(err)
		}
	}
	if left := l.cluster.Objects("default", fleetOf); len(left) != 7 {
		t.Errorf("%d kinds of objects were written and deleted, want all 7", len(left))
	}
	secret := apply.Secret{Cluster: l.cluster, Namespace: system, Name: "penstock-ca"}
	if err := secret.Write(t.Context(), map[string][]byte{"tls.crt": []byte("1")}, ""); err != nil {
		t.Error(err)
	}
	_, version, err := secret.Read(t.Context())
	if err == nil {
		err = secret.Write(t.Context(), map[string][]byte{"tls.crt": []byte("2")}, version)
	}
	if err != nil {
		t.Error(err)
	}
	if _, err := l.cluster.ReviewToken(t.Context(), "junk", "penstock.dev"); err != nil {
		t.Error(err)
	}
	lease := "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: penstock}, spec: {holderIdentity: a}}"
	for _, w := range []struct{ verb, resource, namespace, name, body string }{
		{"create", "leases", system, "", lease},
		{"patch", "leases", system, "penstock", "{spec: {holderIdentity: b}}"},
		{"patch", "gatewayclasses", "", "penstock", "{metadata: {finalizers: [penstock.dev/gateway]}}"},
		{"patch", "gatewayclasses", "", "penstock", "{metadata: {finalizers: null}}"},
		{"patch/status", "gatewayclasses", "", "penstock", "{status: {conditions: []}}"},
		{"patch/status", "gateways", "default", "gw", "{status: {addresses: []}}"},
	} {
		if err := l.write(w.verb, w.resource, w.namespace, w.name, w.body); err != nil {
			t.Errorf("%s %s %s: %v", w.verb, w.resource, w.name, err)
		}
	}
}

const (
	ours = "labels: {penstock.dev/fleet: " + fleetOf + "}"
	pod  = "automountServiceAccountToken: false, serviceAccountName: " + fleetOf +
		", containers: [{name: a, image: a}]"
	fleet = "{apiVersion: apps/v1, kind: Deployment, metadata: {name: " + fleetOf + ", " + ours +
		"}, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {%s}}}}"
	policy = "ValidatingAdmissionPolicy 'penstock'"
)

var deniedWrites = []struct{ why, verb, resource, namespace, name, body string }{
	{"no label", "create", "configmaps", "default", "", "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}"},
	{"the label of another fleet", "create", "configmaps", "default", "",
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: a, " + ours + "}}"},
	{"a ServiceAccount without the label", "create", "serviceaccounts", "default", "",
		"{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}}"},
	{"a change of a Service of another user", "patch", "services", "default", "theirs",
		"{spec: {externalIPs: [192.0.2.1]}}"},
	{"the label on an object of another user", "patch", "configmaps", "default", "theirs",
		"{metadata: {labels: {penstock.dev/fleet: theirs}}}"},
	{"the removal of the label", "patch", "serviceaccounts", "default", fleetOf, "{metadata: {labels: null}}"},
	{"a deletion", "delete", "services", "default", "theirs", ""},
	{"a deletion of a Deployment", "delete", "deployments", "default", "theirs", ""},
	{"a scale", "patch/scale", "deployments", "default", "theirs", "{spec: {replicas: 0}}"},
	{"the node's network", "patch", "deployments", "default", fleetOf,
		"{spec: {template: {spec: {hostNetwork: true}}}}"},
	{"the node's processes", "patch", "deployments", "default", fleetOf,
		"{spec: {template: {spec: {hostPID: true}}}}"},
	{"a folder of the node", "patch", "deployments", "default", fleetOf,
		"{spec: {template: {spec: {volumes: [{name: v, hostPath: {path: /}}]}}}}"},
	{"a Secret as a volume", "patch", "deployments", "default", fleetOf,
		"{spec: {template: {spec: {volumes: [{name: v, secret: {secretName: theirs}}]}}}}"},
	{"a token for the API server", "patch", "deployments", "default", fleetOf,
		"{spec: {template: {spec: {volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: " +
			"t}}]}}]}}}}"},
	{"a mounted token", "patch", "deployments", "default", fleetOf,
		"{spec: {template: {spec: {automountServiceAccountToken: true}}}}"},
	{"another service account", "patch", "deployments", "default", fleetOf,
		"{spec: {template: {spec: {serviceAccountName: default}}}}"},
	{"a privileged container", "patch", "deployments", "default", fleetOf,
		"{spec: {template: {spec: {containers: [{name: a, image: a, securityContext: {privileged: true}}]}}}}"},
	{"another Secret", "create", "secrets", "default", "",
		"{apiVersion: v1, kind: Secret, metadata: {name: a, labels: {app.kubernetes.io/managed-by: penstock}}}"},
	{"a Secret of another user", "patch", "secrets", "default", "theirs", "{stringData: {a: b}}"},
	{"the deletion of the authority", "delete", "secrets", system, "penstock-ca", ""},
	{"the authority without its label", "patch", "secrets", system, "penstock-ca", "{metadata: {labels: null}}"},
	{"the specification of a class", "patch", "gatewayclasses", "", "penstock", "{spec: {description: mine}}"},
	{"a label of a class", "patch", "gatewayclasses", "", "penstock", "{metadata: {labels: {a: b}}}"},
	{"a finalizer and a label of a class", "patch", "gatewayclasses", "", "penstock",
		"{metadata: {finalizers: [a.example/b], annotations: {a: b}}}"},
	{"the deletion of a class", "delete", "gatewayclasses", "", "penstock", ""},
	{"a Gateway's specification", "patch", "gateways", "default", "gw", "{metadata: {labels: {a: b}}}"},
	{"a route", "create", "httproutes", "default", "", objects[2].text()},
	{"a Lease elsewhere", "create", "leases", "default", "",
		"{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: penstock}}"},
	{"another Lease", "create", "leases", system, "",
		"{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: other}}"},
	{"a pod", "create", "pods", "default", "",
		"{apiVersion: v1, kind: Pod, metadata: {name: a, " + ours +
			"}, spec: {containers: [{name: a, image: a}]}}"},
	{"a token", "create/token", "serviceaccounts", "default", fleetOf,
		"{apiVersion: authentication.k8s.io/v1, kind: TokenRequest, spec: {audiences: [a]}}"},
	{"a role", "create", "clusterroles", "", "",
		"{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a}}"},
}

// RBAC allows everything. With Penstock's token, an attacker can still change no object of others,
// and get no other token.
func TestAdmissionPolicy_DeniesEverythingElse(t *testing.T) {
	l := limit(t)
	l.create(t, "gatewayclasses", objects[0].text())
	l.create(t, "gateways", objects[1].text())
	l.create(t, "configmaps", "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: default, name: theirs}}")
	l.create(t, "services",
		"{apiVersion: v1, kind: Service, metadata: {namespace: default, name: theirs}, spec: {ports: [{port: 80}]}}")
	l.create(t, "secrets", "{apiVersion: v1, kind: Secret, metadata: {namespace: default, name: theirs}}")
	l.create(t, "serviceaccounts", "{apiVersion: v1, kind: ServiceAccount, metadata: {namespace: default, name: "+
		fleetOf+", "+ours+"}}")
	l.create(t, "deployments",
		"{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: default, name: theirs}, spec: {selector: "+
			"{matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, "+
			"image: a}]}}}}")
	l.create(t, "secrets", "{apiVersion: v1, kind: Secret, metadata: {namespace: "+system+
		", name: penstock-ca, labels: {app.kubernetes.io/managed-by: penstock}}}")
	if err := l.write("create", "deployments", "default", "", fmt.Sprintf(fleet, pod)); err != nil {
		t.Fatalf("the Deployment of a fleet: %v", err)
	}
	for _, w := range deniedWrites {
		if err := l.write(w.verb, w.resource, w.namespace, w.name, w.body); err == nil ||
			!strings.Contains(err.Error(), policy) {
			t.Errorf("%s (%s %s %s): got %v, want it denied by %s", w.why, w.verb, w.resource, w.name, err, policy)
		}
	}
	// The policy does not limit other users.
	l.create(t, "configmaps", "{apiVersion: v1, kind: ConfigMap, metadata: {namespace: default, name: unlabeled}}")
}
