//go:build lab && linux

package promises

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

const fleet = "gw-penstock"

var owned = []struct{ group, version, resource string }{
	{"apps", "v1", "deployments"}, {"", "v1", "services"}, {"", "v1", "serviceaccounts"}, {"", "v1", "configmaps"},
	{"policy", "v1", "poddisruptionbudgets"},
}

// A fleet's objects exist, have the labels and annotations of spec.infrastructure, belong to the
// Gateway, and serve.
func fleetServes(p place) {
	cert, key := certificate(p)
	if _, err := p.CoreV1().Secrets(p.Namespace).Create(p.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{"tls.crt": cert, "tls.key": key},
	}, metav1.CreateOptions{}); err != nil {
		p.Fatal(err)
	}
	p.apply(chat + `
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec:
  gatewayClassName: penstock
  infrastructure: {labels: {team: blue}, annotations: {example.com/owner: jane}}
  listeners:
  - {name: http, port: 80, protocol: HTTP}
  - {name: https, port: 443, protocol: HTTPS, tls: {certificateRefs: [{name: edge}]}}
`)
	address := p.programmed("gw")[0]
	gw, err := p.gateway(p.Context(), "gw")
	if err != nil {
		p.Fatal(err)
	}
	for _, o := range owned {
		there, err := p.dynamic.Resource(kindOf(o.group, o.version, o.resource)).Namespace(p.Namespace).
			Get(p.Context(), fleet, metav1.GetOptions{})
		if err != nil {
			p.Errorf("%s: %v", o.resource, err)
			continue
		}
		if l := there.GetLabels(); l["team"] != "blue" || l["gateway.networking.k8s.io/gateway-name"] != "gw" ||
			l["gateway.networking.k8s.io/gateway-class-name"] != "penstock" {
			p.Errorf("%s has labels %v, want team blue, and the Gateway and its class", o.resource, l)
		}
		if there.GetAnnotations()["example.com/owner"] != "jane" {
			p.Errorf("%s has annotations %v, want example.com/owner jane", o.resource, there.GetAnnotations())
		}
		if !metav1.IsControlledBy(there, gw) {
			p.Errorf("%s belongs to %v, want the Gateway", o.resource, there.GetOwnerReferences())
		}
	}
	p.RolledOut(p.Namespace, fleet)
	pods, err := p.pods(p.Context(), p.Namespace, envoys("gw")+",team=blue")
	if err != nil || len(pods) != 2 || pods[0].Annotations["example.com/owner"] != "jane" ||
		pods[0].Spec.ServiceAccountName != fleet {
		p.Errorf("proxies: got %s %v, want 2 with the owner jane and the account %s", podNames(pods), err, fleet)
	}
	p.Until("the budget counts the proxies", func(ctx context.Context) error {
		b, err := p.PolicyV1().PodDisruptionBudgets(p.Namespace).Get(ctx, fleet, metav1.GetOptions{})
		if err == nil && (b.Status.ExpectedPods != 2 || b.Status.DisruptionsAllowed != 1) {
			err = fmt.Errorf("got %+v, want 2 pods expected and 1 disruption allowed", b.Status)
		}
		return err
	})
	p.answers("http://" + address + "/health")
	p.answers("http://" + address + "/v1/models")
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(cert)
	p.Until("the certificate is served", func(context.Context) error {
		conn, err := tls.Dial("tcp", address+":443", &tls.Config{RootCAs: roots, ServerName: "edge.example.com"})
		if err != nil {
			return err
		}
		return conn.Close()
	})
	// The PodDisruptionBudget permits the eviction of one proxy at a time.
	for i, want := range []bool{true, false} {
		err := p.PolicyV1().Evictions(p.Namespace).Evict(p.Context(),
			&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: pods[i].Name}})
		if (err == nil) != want {
			p.Errorf("eviction of proxy %d: got %v, want it allowed: %t", i+1, err, want)
		}
	}
}

func certificate(p place) (cert, key []byte) {
	p.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"edge.example.com"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		p.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		p.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

func deletionDrains(p place) {
	p.apply(chat + plainGateway)
	address := p.programmed("gw")[0]
	p.answers("http://" + address + "/v1/models")
	ctx, hangUp := context.WithCancel(p.Context())
	defer hangUp()
	const long = 600 // one word a second, longer than Kubernetes takes to delete the proxy
	body := fmt.Sprintf(`{"max_tokens": %d, "stream": true, "messages": [{"role": "user", "content": "%s"}]}`, long,
		strings.Repeat("word ", long))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/v1/chat/completions",
		strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.Fatal(err)
	}
	defer resp.Body.Close()
	words := bufio.NewScanner(resp.Body)
	read := func(n int) {
		p.Helper()
		for range n {
			if !words.Scan() {
				p.Fatalf("the stream ended, want it to go on: %v", words.Err())
			}
		}
	}
	read(1)
	if err := p.dynamic.Resource(gateways).Namespace(p.Namespace).Delete(p.Context(), "gw",
		metav1.DeleteOptions{}); err != nil {
		p.Fatal(err)
	}
	p.Until("the proxy is being deleted", func(ctx context.Context) error {
		read(2) // a word and an empty line
		left, err := p.pods(ctx, p.Namespace, envoys("gw"))
		if err == nil && len(left) > 0 {
			err = errors.New(podNames(left) + " is not being deleted")
		}
		return err
	})
	read(2 * 12)
	hangUp()
	p.Until("the fleet's objects are gone", func(ctx context.Context) error {
		for _, o := range append(slices.Clone(owned), struct{ group, version, resource string }{"", "v1", "pods"}) {
			list, err := p.dynamic.Resource(kindOf(o.group, o.version, o.resource)).Namespace(p.Namespace).
				List(ctx, metav1.ListOptions{LabelSelector: envoys("gw")})
			if err != nil || len(list.Items) > 0 {
				return fmt.Errorf("%d %s: %w, want 0", len(list.Items), o.resource, err)
			}
		}
		return nil
	})
}

// A Gateway serves at its static address if the network can assign the address. Otherwise a
// condition reports the problem.
func staticAddresses(p place) {
	p.apply(plainGateway)
	given := p.programmed("gw")[0]
	p.apply(plainGateway + "  addresses: [{value: 203.0.113.7}]\n")
	p.Until("the condition AddressNotUsable", func(ctx context.Context) error {
		gw, err := p.gateway(ctx, "gw")
		if err != nil {
			return err
		}
		for _, c := range gw.Status.Conditions {
			if c.Type == "Programmed" && c.Status == metav1.ConditionFalse &&
				c.Reason == string(gatewayv1.GatewayReasonAddressNotUsable) {
				return nil
			}
		}
		return fmt.Errorf("got %+v, want Programmed False with AddressNotUsable", gw.Status.Conditions)
	})
	// This address is free, because the load balancer assigns addresses in order.
	wanted := given[:strings.LastIndex(given, ".")+1] + "200"
	p.apply(chat + plainGateway + "  addresses: [{value: " + wanted + "}]\n")
	if got := p.programmed("gw"); !slices.Equal(got, []string{wanted}) {
		p.Errorf("addresses %v, want %s", got, wanted)
	}
	p.answers("http://" + wanted + "/health")
}

// plainGateway has one small proxy. Callers may append to its spec.
const plainGateway = `
---
apiVersion: penstock.dev/v1alpha1
kind: EnvoyFleet
metadata: {name: gw}
spec: {replicas: 1, drainSeconds: 60, resources: {requests: {cpu: 10m, memory: 32Mi}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gw}
spec:
  gatewayClassName: penstock
  infrastructure: {parametersRef: {group: penstock.dev, kind: EnvoyFleet, name: gw}}
  listeners: [{name: http, port: 80, protocol: HTTP}]
`

// metrics is a part of a fleet's spec. It exposes Envoy's metrics to Prometheus, which Penstock
// does not do by itself.
const metrics = `
  bootstrap:
    static_resources:
      listeners:
      - name: metrics
        address: {socket_address: {address: 0.0.0.0, port_value: 9990}}
        filter_chains:
        - filters:
          - name: envoy.filters.network.http_connection_manager
            typed_config:
              "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
              stat_prefix: admin
              route_config:
                virtual_hosts:
                - {name: metrics, domains: ["*"], routes: [{match: {path: /stats/prometheus}, route: {cluster: metrics}}]}
              http_filters:
              - {name: envoy.filters.http.router, typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}}
      clusters:
      - name: metrics
        load_assignment:
          cluster_name: metrics
          endpoints: [{lb_endpoints: [{endpoint: {address: {pipe: {path: /run/penstock/admin.sock}}}}]}]
`

func parametersTakeEffect(p place) {
	p.apply(chat + plainGateway)
	address := p.programmed("gw")[0]
	before, err := p.pods(p.Context(), p.Namespace, envoys("gw"))
	if err != nil {
		p.Fatal(err)
	}
	t := p.load(address)
	p.apply(`
apiVersion: penstock.dev/v1alpha1
kind: EnvoyFleet
metadata: {name: gw}
spec:
  replicas: 2
  concurrency: 3
  drainSeconds: 60
  resources: {requests: {cpu: 20m, memory: 40Mi}, limits: {memory: 500Mi}}
  pod: {labels: {tier: edge}}
` + metrics)
	p.Until("the Deployment has the EnvoyFleet's settings", func(ctx context.Context) error {
		d, err := p.AppsV1().Deployments(p.Namespace).Get(ctx, fleet, metav1.GetOptions{})
		if err == nil && d.Spec.Template.Labels["tier"] != "edge" {
			err = errors.New("the Deployment is unchanged")
		}
		return err
	})
	d := p.RolledOut(p.Namespace, fleet)
	p.end(t)
	envoy := d.Spec.Template.Spec.Containers[0]
	if *d.Spec.Replicas != 2 || envoy.Resources.Requests.Cpu().String() != "20m" ||
		envoy.Resources.Limits.Memory().String() != "500Mi" {
		p.Errorf("%d replicas with resources %v, want 2 with 20m and 500Mi", *d.Spec.Replicas, envoy.Resources)
	}
	pods, err := p.pods(p.Context(), p.Namespace, envoys("gw")+",tier=edge")
	if err != nil || len(pods) != 2 {
		p.Fatalf("proxies: got %s %v, want 2", podNames(pods), err)
	}
	for _, pod := range pods {
		if pod.Name == before[0].Name {
			p.Errorf("proxy %s is still there, want it replaced by the rollout", pod.Name)
		}
		text := p.metricsOf(pod.Status.PodIP)
		if !strings.Contains(text, "envoy_server_concurrency{} 3\n") {
			p.Errorf("metrics of proxy %s: got\n%s\nwant three threads", pod.Name, text)
		}
		if !strings.Contains(text, "envoy_overload_") {
			p.Errorf("metrics of proxy %s: got\n%s\nwant envoy_overload_", pod.Name, text)
		}
	}
	p.answers("http://" + address + "/health")
}

func (p place) metricsOf(ip string) (text string) {
	p.Helper()
	p.Until("metrics of the proxy "+ip, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ip+":9990/stats/prometheus", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = errors.New(resp.Status)
		}
		text = string(body)
		return err
	})
	return text
}

func (p place) fleetIs(spec string) {
	p.Helper()
	p.apply("apiVersion: penstock.dev/v1alpha1\nkind: EnvoyFleet\nmetadata: {name: gw}\nspec: {" + spec + "}\n")
}

const small = "resources: {requests: {cpu: 10m, memory: 32Mi}}, "

// Autoscaling and external proxies begin when an EnvoyFleet sets them, and end when the EnvoyFleet
// no longer does.
func scalingAndExternal(p place) {
	p.apply(chat + plainGateway)
	p.programmed("gw")
	p.fleetIs(small + "autoscaling: {minReplicas: 1, maxReplicas: 3, cpuPercent: 70}")
	p.Until("there is an autoscaler", func(ctx context.Context) error {
		hpa, err := p.AutoscalingV2().HorizontalPodAutoscalers(p.Namespace).Get(ctx, fleet, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if hpa.Spec.ScaleTargetRef.Name != fleet || *hpa.Spec.MinReplicas != 1 || hpa.Spec.MaxReplicas != 3 ||
			*hpa.Spec.Metrics[0].Resource.Target.AverageUtilization != 70 {
			return fmt.Errorf("autoscaler: got %+v, want %s at 70 %%, 1 to 3", hpa.Spec, fleet)
		}
		return nil
	})
	p.fleetIs(small + "replicas: 1")
	p.Until("the autoscaler is gone", func(ctx context.Context) error {
		if _, err := p.AutoscalingV2().HorizontalPodAutoscalers(p.Namespace).
			Get(ctx, fleet, metav1.GetOptions{}); err == nil {
			return errors.New("the autoscaler still exists")
		}
		return nil
	})
	p.answers("http://" + p.programmed("gw")[0] + "/health")
	p.fleetIs("mode: external, external: {addresses: [edge.example.com], serviceAccounts: [mine]}")
	p.Until("the fleet's objects are gone, and the Gateway has the external address", func(ctx context.Context) error {
		if err := p.at(ctx, "edge.example.com"); err != nil {
			return err
		}
		for _, o := range owned {
			if _, err := p.dynamic.Resource(kindOf(o.group, o.version, o.resource)).Namespace(p.Namespace).
				Get(ctx, fleet, metav1.GetOptions{}); err == nil {
				return fmt.Errorf("%s still exist, want them gone", o.resource)
			}
		}
		return nil
	})
}

func (p place) at(ctx context.Context, address string) error {
	gw, err := p.gateway(ctx, "gw")
	if err != nil || len(gw.Status.Addresses) != 1 || gw.Status.Addresses[0].Value != address {
		return fmt.Errorf("addresses %v, want %s: %w", gw.Status.Addresses, address, err)
	}
	return nil
}
