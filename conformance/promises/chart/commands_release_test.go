//go:build lab && linux

package chart

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/penstock-project/penstock/conformance/lab"
	"github.com/penstock-project/penstock/conformance/lab/installed"
	"github.com/penstock-project/penstock/conformance/lab/labtest"
)

const chatPool = `
apiVersion: inference.networking.k8s.io/v1
kind: InferencePool
metadata: {name: qwen}
spec: {selector: {matchLabels: {app: vllm}}, targetPorts: [{number: 8000}]}
---` + qwen

// Without -f, the commands find the pods of both replicas through the kubeconfig. A replica only
// has its own Envoys and picks, so a command that queried one replica would show half of them.
func TestCommands_JoinBothReplicas(t *testing.T) {
	c := startCommands(t)
	t.Run("status", c.status)
	t.Run("explain", c.explain)
	t.Run("pages of all replicas", c.everywhere)
	t.Run("permissions", c.permissions)
}

type commands struct {
	lab     *lab.Lab
	place   labtest.Place
	address string
	home    string
}

func startCommands(t *testing.T) *commands {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "commands")
	if err != nil {
		t.Fatal(err)
	}
	c := &commands{home: t.TempDir()}
	if c.lab, err = installed.Start(ctx, lab.Config{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.lab.Down(); err != nil {
			t.Error(err)
		}
	})
	c.place = labtest.NewPlace(t, c.lab.Kubeconfig(), "")
	c.place.RolledOut(system, "penstock")
	if err := installed.Apply(t.Context(), c.place.REST, c.place.Namespace, []byte(chatPool)); err != nil {
		t.Fatal(err)
	}
	gateway := &releases{place: c.place}
	gateway.clients()
	c.place.Until("the Gateway is programmed", func(ctx context.Context) (err error) {
		c.address, err = gateway.address(ctx)
		return err
	})
	c.place.RolledOut(c.place.Namespace, "gw-penstock")
	c.spread(t)
	return c
}

// spread deletes proxies until each replica has one proxy. The Service connects each new proxy to
// any replica.
func (c *commands) spread(t *testing.T) {
	t.Helper()
	p := c.place
	p.Until("each replica has a proxy", func(ctx context.Context) error {
		total, idle := 0, ""
		for name, n := range c.metric(t, "penstock_xds_streams") {
			if total += n; n == 0 {
				idle = name
			}
		}
		if total != 2 || idle == "" {
			return unless(total == 2, fmt.Errorf("%d proxies are connected, want 2", total))
		}
		pods, err := p.CoreV1().Pods(p.Namespace).List(ctx,
			metav1.ListOptions{LabelSelector: "gateway.networking.k8s.io/gateway-name=gw"})
		if err != nil || len(pods.Items) == 0 {
			return errors.Join(err, errors.New("the proxies' pods are missing"))
		}
		err = p.CoreV1().Pods(p.Namespace).Delete(ctx, pods.Items[0].Name, metav1.DeleteOptions{})
		p.RolledOut(p.Namespace, "gw-penstock")
		return errors.Join(err, fmt.Errorf("replica %s has no proxy, want one", idle))
	})
}

func unless(ok bool, err error) error {
	if ok {
		return nil
	}
	return err
}

func (c *commands) metric(t *testing.T, name string) map[string]int {
	t.Helper()
	pods, err := c.place.CoreV1().Pods(system).List(t.Context(),
		metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=penstock"})
	if err != nil {
		t.Fatal(err)
	}
	series := regexp.MustCompile(`(?m)^` + name + `(?:\{.*\})? (\d+)$`)
	out := map[string]int{}
	for _, pod := range pods.Items {
		response, err := http.Get("http://" + net.JoinHostPort(pod.Status.PodIP, "9090") + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		out[pod.Name] = 0
		for _, m := range series.FindAllSubmatch(page, -1) {
			n, _ := strconv.Atoi(string(m[1]))
			out[pod.Name] += n
		}
	}
	return out
}

func (c *commands) run(t *testing.T, kubeconfig string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	program, err := filepath.Abs("../../../bin/penstock")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), labtest.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "HOME="+c.home)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

func (c *commands) must(t *testing.T, args ...string) string {
	t.Helper()
	stdout, stderr, err := c.run(t, c.lab.Kubeconfig(), args...)
	if err != nil || stderr != "" {
		t.Fatalf("penstock %s: got %v\n%s%s\nwant no error", strings.Join(args, " "), err, stderr, stdout)
	}
	return stdout
}

func (c *commands) status(t *testing.T) {
	var status struct {
		Objects []struct{ Kind, Name string }
		Proxies []struct{ Node, Gateway string }
		Serving []struct{ Servers int }
	}
	text := c.must(t, "status", "-o", "json")
	if err := json.Unmarshal([]byte(text), &status); err != nil {
		t.Fatal(err)
	}
	if len(status.Proxies) != 2 || status.Proxies[0].Node == status.Proxies[1].Node {
		t.Errorf("proxies: got %+v, want 2, one at each replica", status.Proxies)
	}
	if len(status.Serving) != 1 || status.Serving[0].Servers != 2 {
		t.Errorf("pools: got %+v, want one with two servers", status.Serving)
	}
	if len(status.Objects) < 4 {
		t.Errorf("status has the objects %+v, want at least 4 of them", status.Objects)
	}
	text = c.must(t, "status")
	for _, proxy := range status.Proxies {
		if !strings.Contains(text, "Envoy "+proxy.Node+" of Gateway "+c.place.Namespace+"/gw is in sync") {
			t.Errorf("got\n%s\nwant proxy %s in sync", text, proxy.Node)
		}
	}
}

func (c *commands) explain(t *testing.T) {
	url := "http://" + c.address + "/v1/chat/completions"
	var ids []string
	c.place.Until("each replica has picked", func(ctx context.Context) error {
		id, err := request(ctx, url)
		if err != nil {
			return err
		}
		ids = append(ids, id)
		for name, n := range c.metric(t, "penstock_picker_picks_total") {
			if n == 0 {
				return fmt.Errorf("replica %s has picked 0 times, want some", name)
			}
		}
		return nil
	})
	pickers := map[string]bool{}
	for _, id := range ids {
		var found struct {
			Picks []struct{ Request, Picker, Pool string }
		}
		text := c.must(t, "explain", "--why", id, "-o", "json")
		if err := json.Unmarshal([]byte(text), &found); err != nil {
			t.Fatal(err)
		}
		if len(found.Picks) != 1 || found.Picks[0].Request != id {
			t.Fatalf("picks of request %s: got %+v, want one", id, found.Picks)
		}
		pickers[found.Picks[0].Picker] = true
	}
	if len(pickers) != 2 {
		t.Errorf("both replicas have picked, and the picks are of %v, want 2 of them", pickers)
	}
	last := c.must(t, "explain", "--last", "1000", "--pool", c.place.Namespace+"/qwen")
	for _, id := range ids {
		if strings.Count(last, "request "+id) != 1 {
			t.Errorf("got\n%s\nwant request %s once", last, id)
		}
	}
	if text := c.must(t, "explain", url); !strings.Contains(text, "InferencePool "+c.place.Namespace+"/qwen") {
		t.Errorf("the explanation of a URL: got\n%s\nwant the pool qwen", text)
	}
}

func request(ctx context.Context, url string) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url,
		strings.NewReader(`{"model": "qwen", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 2}`))
	if err != nil {
		return "", err
	}
	r.Close = true
	r.Header.Set("content-type", "application/json")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if id = response.Header.Get("x-request-id"); err != nil || response.StatusCode != http.StatusOK || id == "" {
		return "", fmt.Errorf("got %s, ID %q, %s: %w, want 200 with an ID", response.Status, id, text, err)
	}
	return id, nil
}

func (c *commands) everywhere(t *testing.T) {
	streams := strings.Split(strings.TrimSpace(c.must(t, "debug", "xds", "streams")), "\n")
	if len(streams) != 3 {
		t.Errorf("streams: got %q, want a heading and two", streams)
	}
	for _, line := range streams[1:] {
		node := strings.Fields(line)[0]
		if text := c.must(t, "debug", "xds", "diff", node); text != "" {
			t.Errorf("proxy %s is in sync, and lacks %s, want nothing", node, text)
		}
	}
	if _, stderr, err := c.run(t, c.lab.Kubeconfig(), "debug", "xds", "diff", "absent"); err == nil ||
		!strings.Contains(stderr, `no proxy with node id "absent"`) {
		t.Errorf("a proxy that is not there: got %v: %s, want an error that names it", err, stderr)
	}
	if text := c.must(t, "debug", "picker", "show", c.place.Namespace+"/qwen"); strings.Count(text, "vllm-") != 2 {
		t.Errorf("the pool: got\n%s\nwant two servers", text)
	}
	if text := c.must(t, "debug", "store", "show", "HTTPRoute"); text != c.place.Namespace+"/qwen\n" {
		t.Errorf("the routes are %q, want %q", text, c.place.Namespace+"/qwen\n")
	}
	if _, stderr, err := c.run(t, c.lab.Kubeconfig(), "clusters", "list"); err == nil ||
		!strings.Contains(stderr, "takes part in no cluster set") {
		t.Errorf("clusters list: got %v: %s, want an error, as it is in no cluster set", err, stderr)
	}
	archive := filepath.Join(t.TempDir(), "support.tar.gz")
	if text := c.must(t, "support", "--out", archive); !strings.Contains(text, " 1/status.json\n") ||
		!strings.Contains(text, " 2/status.json\n") {
		t.Errorf("the archive: got\n%s\nwant both replicas", text)
	}
	if _, stderr, err := c.run(t, c.lab.Kubeconfig(), "status", "--penstock-namespace", "default"); err == nil ||
		!strings.Contains(stderr, "namespace default has no ready pod") ||
		!strings.Contains(stderr, "--penstock-namespace") {
		t.Errorf("a namespace without penstock: got %v: %s, want that it has no ready pod", err, stderr)
	}
}

// permissions checks the error for each missing permission, and that the documented permissions are
// enough. The kubeconfig names files, as minikube's does.
func (c *commands) permissions(t *testing.T) {
	p := c.place
	_, err := p.CoreV1().ServiceAccounts(p.Namespace).Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "viewer"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	token, err := p.CoreV1().ServiceAccounts(p.Namespace).CreateToken(t.Context(), "viewer",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string][]byte{"ca.crt": p.REST.CAData, "token": []byte(token.Status.Token + "\n")} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := api.NewConfig()
	config.Clusters["it"] = &api.Cluster{Server: p.REST.Host, CertificateAuthority: "ca.crt"}
	config.AuthInfos["it"] = &api.AuthInfo{TokenFile: "token"}
	config.Contexts["it"] = &api.Context{Cluster: "it", AuthInfo: "it"}
	viewer := filepath.Join(dir, "config")
	if err := clientcmd.WriteToFile(*config, viewer); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		grant []rbacv1.PolicyRule
		want  []string // texts of the error; nil means that the command succeeds
	}{
		{nil, []string{`cannot list resource "pods"`, `namespace "` + system + `"`}},
		{[]rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list"}}},
			[]string{"create of pods/portforward", `in the namespace "` + system + `"`}},
		{[]rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods/portforward"},
			Verbs: []string{"create"}}}, nil},
	} {
		if step.grant != nil {
			c.grant(t, step.grant)
		}
		c.place.Until("the API server applies the role", func(context.Context) error {
			stdout, stderr, err := c.run(t, viewer, "status", "--context", "it")
			if (err == nil) != (step.want == nil) {
				return fmt.Errorf("got %w: %s, want an error: %t", err, stderr, step.want != nil)
			}
			for _, want := range step.want {
				if !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
					return fmt.Errorf("want %q in one line: %s", want, stderr)
				}
			}
			if step.want == nil && strings.Count(stdout, "\nEnvoy ") != 2 {
				return fmt.Errorf("status: got %s, want proxies of both replicas", stdout)
			}
			return nil
		})
	}
	if _, stderr, err := c.run(t, viewer, "status", "--context", "absent"); err == nil ||
		!strings.Contains(stderr, "it has no context absent") {
		t.Errorf("a context that is not there: got %v: %s, want an error that names it", err, stderr)
	}
}

func (c *commands) grant(t *testing.T, rules []rbacv1.PolicyRule) {
	t.Helper()
	role, err := c.place.RbacV1().Roles(system).Create(t.Context(),
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{GenerateName: "viewer-"}, Rules: rules}, metav1.CreateOptions{})
	if err == nil {
		_, err = c.place.RbacV1().RoleBindings(system).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role.Name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: c.place.Namespace,
				Name: "viewer"}},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}
