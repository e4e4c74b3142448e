//go:build lab && linux

package promises

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/penstock-project/penstock/conformance/lab/image"
	"github.com/penstock-project/penstock/conformance/lab/installed"
	"github.com/penstock-project/penstock/conformance/promises/process"
	"github.com/penstock-project/penstock/xds/resource"
	"github.com/penstock-project/penstock/xds/xdstest"
	"github.com/penstock-project/penstock/xds/xdstest/poll"
)

type fault struct {
	name string
	ends bool // the fault ends processes
	test func(*site)
}

// faults run in this order. Each leaves the site as it was.
var faults = []fault{
	{"Authority_DeletedSecretIsRestored", false, secretDeleted},
	{"Authority_DamagedSecretIsRestored", false, secretDamaged},
	{"Authority_ClocksAYearOffKeepTrust", false, clocksOff},
	{"APIServer_AwayForADayEndsNothing", false, apiServerAway},
	{"Translation_PanicHarmsOneRoute", false, panickingRoute},
	{"Authority_ExpiredAtStartIsReplaced", true, expiredAtStart},
}

// recovery is the deadline of the recovery from a fault.
const recovery = time.Minute

// site is a Gateway with traffic. Its Penstock is the test build with the tag faults.
type site struct {
	place
	address string
	proxy   corev1.Pod
	clients *client       // signs the certificates of external proxies
	elapsed time.Duration // by how much the processes' clock of elapsed time was advanced
	changes int
	sent    int64

	credential string // token of an external proxy
	received   time.Time
}

// withFaults replaces Penstock by the test build. The build's clocks follow files in a volume of
// its pods, and its heap profiles show small growth.
const withFaults = `[
 {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "ghcr.io/penstock-project/penstock:faults"},
 {"op": "add", "path": "/spec/template/spec/containers/0/env/-", "value": {"name": "PENSTOCK_FAULT_CLOCK", "value": "/run/penstock/clock"}},
 {"op": "add", "path": "/spec/template/spec/containers/0/env/-", "value": {"name": "PENSTOCK_FAULT_ELAPSED", "value": "/run/penstock/elapsed"}},
 {"op": "add", "path": "/spec/template/spec/containers/0/env/-", "value": {"name": "GODEBUG", "value": "memprofilerate=65536"}},
 {"op": "add", "path": "/spec/template/spec/containers/0/args/-", "value": "--xds-client-ca=/etc/penstock/fault-clients/ca.crt"},
 {"op": "add", "path": "/spec/template/spec/containers/0/volumeMounts/-", "value": {"name": "fault-clients", "mountPath": "/etc/penstock/fault-clients", "readOnly": true}},
 {"op": "add", "path": "/spec/template/spec/volumes/-", "value": {"name": "fault-clients", "configMap": {"name": "fault-clients"}}}
]`

// far is a Gateway with external proxies. Its port is a parameter: each new port makes a new
// generation.
const far = `
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: far}
---
apiVersion: penstock.dev/v1alpha1
kind: EnvoyFleet
metadata: {name: far}
spec: {mode: external, external: {serviceAccounts: [far], subjects: [edge.example.com], addresses: [192.0.2.1]}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: far}
spec:
  gatewayClassName: penstock
  infrastructure: {parametersRef: {group: penstock.dev, kind: EnvoyFleet, name: far}}
  listeners: [{name: http, port: %d, protocol: HTTP}]
`

func startSite(p place) *site {
	p.Helper()
	dir, err := os.MkdirTemp("", "faults") // the build outlives this test
	if err != nil {
		p.Fatal(err)
	}
	binary, err := process.Penstock(p.Context(), dir, "-tags", "faults")
	if err == nil {
		err = running.Load(image.Image{Name: "ghcr.io/penstock-project/penstock:faults", Program: binary,
			Path: "/usr/local/bin/penstock"})
	}
	if err != nil {
		p.Fatal(err)
	}
	s := &site{place: p, clients: newClient(p, nil, "fault-clients", 10*365*24*time.Hour)}
	p.Cleanup(func() { _ = os.RemoveAll(dir) })
	p.apply(chat + plainGateway + fmt.Sprintf(far, 1024))
	s.address = p.programmed("gw")[0]
	t := p.load(s.address)
	p.apply(
		fmt.Sprintf(
			"apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: %s, name: fault-clients}\ndata: {ca.crt: %q}\n",
			system, s.clients.pem()))
	if _, err := p.AppsV1().Deployments(system).Patch(p.Context(), "penstock", types.JSONPatchType, []byte(withFaults),
		metav1.PatchOptions{}); err != nil {
		p.Fatal(err)
	}
	p.RolledOut(system, "penstock")
	p.end(t)
	proxies, err := p.pods(p.Context(), p.Namespace, envoys("gw"))
	if err != nil || len(proxies) != 1 {
		p.Fatalf("proxies: got %s %v, want 1", podNames(proxies), err)
	}
	s.proxy = proxies[0]
	return s
}

func (s *site) within(what string, check func() error) {
	s.Helper()
	poll.NoError(s.T, what, recovery, check)
}

// goesOn waits until three things hold: a change takes effect at the proxy, each process serves a
// client with the proxies' trusted CAs, and the leader has the ACKs of a proxy of the other
// process.
func (s *site) goesOn() {
	s.Helper()
	s.changes++
	to := fmt.Sprintf("to-%d.example", s.changes)
	s.within("the API server takes a change", func() error {
		return s.tryApply(fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: marker}
spec:
  parentRefs: [{name: gw}]
  hostnames: [marker.example]
  rules: [{matches: [{path: {value: /%d}}], filters: [{type: RequestRedirect, requestRedirect: {hostname: %s, statusCode: 302}}]}]
`, s.changes, to))
	})
	s.within("the change takes effect, and the former route is gone", func() error {
		for path, want := range map[int]string{s.changes: "302 " + to, s.changes - 1: "404 "} {
			if got, err := s.answer("marker.example", path); err != nil || got != want {
				return fmt.Errorf("/%d answers %q: %w, want %q", path, got, err, want)
			}
		}
		return nil
	})
	processes := s.processes()
	token := s.farToken()
	for _, process := range processes {
		s.within("a client that trusts what proxies trust is served by "+process.Name, func() error {
			_, err := s.asFar(process, trusting(s.bundle(), token))
			return err
		})
	}
	proxy := xdstest.StartFake(s.T, xdstest.FakeConfig{
		Address: processes[1].Status.PodIP + ":18000", Node: "far", Gateway: s.Namespace + "/far",
		Dial: trusting(s.bundle(), token),
	})
	s.apply(fmt.Sprintf(far, 1024+s.changes%10000))
	s.programmed("far")
	proxy.Disconnect()
}

// farToken returns the token of an external proxy, at most ten minutes old.
func (s *site) farToken() string {
	s.Helper()
	if time.Since(s.received) > 10*time.Minute {
		s.credential, s.received = s.token("far", "penstock.dev"), time.Now()
	}
	return s.credential
}

// answer requests a path of a host. It returns the response's status and a redirect's target.
func (s *site) answer(host string, path int) (string, error) {
	req, err := http.NewRequestWithContext(s.Context(), http.MethodGet, fmt.Sprintf("http://%s/%d", s.address, path),
		nil)
	if err != nil {
		return "", err
	}
	req.Host = host
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return "", err
	}
	to := ""
	if at, err := resp.Location(); err == nil {
		to = at.Hostname()
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, to), nil
}

func (s *site) bundle() []byte {
	s.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/root/etc/penstock/ca.crt",
		s.Process(s.proxy, "/etc/penstock/bootstrap.yaml")))
	if err != nil {
		s.Fatal(err)
	}
	return text
}

func (s *site) asFar(process corev1.Pod, who []grpc.DialOption) (string, error) {
	answer, err := s.askWith(process.Status.PodIP+":18000", who, resource.Listener)
	return answer.String(), err
}

func (s *site) own(pod corev1.Pod, name string) string {
	s.Helper()
	return filepath.Join("/proc", strconv.Itoa(s.Process(pod, "serve")), "root", "run", "penstock", name)
}

// set replaces the file of a process's clock. The rename is atomic: no reader sees a partial file.
func (s *site) set(pod corev1.Pod, clock string, offset time.Duration) {
	s.Helper()
	path := s.own(pod, clock)
	if err := errors.Join(os.WriteFile(path+".new", []byte(offset.String()), 0o644),
		os.Rename(path+".new", path)); err != nil {
		s.Fatal(err)
	}
}

func (s *site) authority() map[string][]byte {
	s.Helper()
	secret, err := s.CoreV1().Secrets(system).Get(s.Context(), "penstock-ca", metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return secret.Data
}

func (s *site) restored(before map[string][]byte) {
	s.Helper()
	s.within("the Secret is as before", func() error {
		secret, err := s.CoreV1().Secrets(system).Get(s.Context(), "penstock-ca", metav1.GetOptions{})
		if err == nil && !maps.EqualFunc(secret.Data, before, bytes.Equal) {
			err = errors.New("it is not")
		}
		return err
	})
}

func secretDeleted(s *site) {
	before := s.authority()
	if err := s.CoreV1().Secrets(system).Delete(s.Context(), "penstock-ca", metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
	s.restored(before)
}

func secretDamaged(s *site) {
	before := s.authority()
	patch := `{"data": {"tls.crt": "bm9uc2Vuc2U=", "tls.key": null}}`
	if _, err := s.CoreV1().Secrets(system).Patch(s.Context(), "penstock-ca", types.MergePatchType, []byte(patch),
		metav1.PatchOptions{}); err != nil {
		s.Fatal(err)
	}
	s.restored(before)
}

func clocksOff(s *site) {
	const year = 365 * 24 * time.Hour
	processes := s.processes()
	s.Cleanup(func() {
		for _, p := range processes {
			s.set(p, "clock", 0)
		}
	})
	for _, offsets := range [][]time.Duration{{year, -year}, {0, 0}} {
		logged := s.audited()
		for i, p := range processes {
			s.set(p, "clock", offsets[i])
		}
		s.within("both processes have checked the authority by their clocks", func() error {
			checked := map[string]bool{}
			for _, r := range s.requestsAfter(logged) {
				if r.ObjectRef.Resource == "secrets" && r.ObjectRef.Name == "penstock-ca" && r.Verb == "get" {
					checked[r.SourceIPs[0]] = true
				}
			}
			for _, p := range processes {
				if !checked[p.Status.PodIP] {
					return fmt.Errorf("%s did not check the CA's Secret, want it to", p.Name)
				}
			}
			return nil
		})
		s.goesOn()
	}
}

// expiredAtStart starts both processes with a CA that expired a month ago. Proxies trust the
// processes' new certificates only once the file with CAs is replaced.
func expiredAtStart(s *site) {
	next := newSuccessor(s.place)
	processes := s.processes()
	for _, p := range processes {
		if err := syscall.Kill(s.Process(p, "serve"), syscall.SIGSTOP); err != nil {
			s.Fatal(err)
		}
	}
	secret, err := s.CoreV1().Secrets(system).Get(s.Context(), "penstock-ca", metav1.GetOptions{})
	if err == nil {
		secret.Data = map[string][]byte{"tls.crt": next.aged(s.place, 400*24*time.Hour), "tls.key": next.keyPEM}
		_, err = s.CoreV1().Secrets(system).Update(s.Context(), secret, metav1.UpdateOptions{})
	}
	for _, p := range processes {
		s.kill(p)
	}
	if err != nil {
		s.Fatal(err)
	}
	s.within("the processes have a new authority", func() error {
		secret, err := s.CoreV1().Secrets(system).Get(s.Context(), "penstock-ca", metav1.GetOptions{})
		if err == nil && bytes.Equal(secret.Data["tls.key"], next.keyPEM) {
			err = errors.New("they have the expired one")
		}
		return err
	})
}

func (p place) apiServer() int {
	p.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		p.Fatal(err)
	}
	for _, file := range files {
		line, _ := os.ReadFile(file) // fails for processes that have ended
		if bytes.HasPrefix(line, []byte("kube-apiserver\x00")) &&
			bytes.Contains(line, []byte("="+running.AuditLog("lab1")+"\x00")) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err != nil {
				p.Fatal(err)
			}
			return pid
		}
	}
	p.Fatal("no process is the API server")
	return 0
}

// apiServerAway stops the API server, and advances the processes' clocks by 23 and then by 26
// hours. A credential that a process has accepted stays valid for an hour and, without an API
// server, for a day more.
func apiServerAway(s *site) {
	processes := s.processes()
	life := s.elapsed + time.Hour
	accepted, unknown := s.token("far", "penstock.dev"), s.token("far", "penstock.dev")
	known, other := newClient(s.place, s.clients, "edge.example.com", life),
		newClient(s.place, s.clients, "edge.example.com", life)
	bundle := s.bundle()
	asks := func(what string, who []grpc.DialOption, want bool) {
		s.Helper()
		for _, p := range processes {
			s.within(fmt.Sprintf("%s is accepted by %s: %t", what, p.Name, want), func() error {
				if _, err := s.asFar(p, who); (err == nil) != want {
					return fmt.Errorf("got the answer %v, want it accepted: %t", err, want)
				}
				return nil
			})
		}
	}
	asks("the token", trusting(bundle, accepted), true)
	asks("the certificate", certified(bundle, known), true)

	pid := s.apiServer()
	resume := func() { _ = syscall.Kill(pid, syscall.SIGCONT) }
	s.Cleanup(resume)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		s.Fatal(err)
	}
	stopped := time.Now()
	s.lagging(processes, true)
	asks("the token", trusting(bundle, accepted), true)
	s.pass(processes, 24*time.Hour)
	asks("the expired token", trusting(bundle, accepted), true)
	asks("the expired certificate", certified(bundle, known), true)
	asks("an unknown token", trusting(bundle, unknown), false)
	asks("an expired certificate that is unknown", certified(bundle, other), false)
	s.pass(processes, 2*time.Hour)
	asks("the token after a day", trusting(bundle, accepted), false)
	asks("the certificate after a day", certified(bundle, known), false)
	if *soaking > 0 {
		time.Sleep(time.Until(stopped.Add(time.Minute)))
	}
	resume()
	s.lagging(processes, false)
}

func (s *site) pass(processes []corev1.Pod, d time.Duration) {
	s.Helper()
	s.elapsed += d
	for _, p := range processes {
		s.set(p, "elapsed", s.elapsed)
	}
}

func (s *site) lagging(processes []corev1.Pod, want bool) {
	s.Helper()
	line := "penstock_lagging 0"
	if want {
		line = "penstock_lagging 1"
	}
	for _, p := range processes {
		s.within(p.Name+" has the metric "+line, func() error {
			resp, err := http.Get("http://" + p.Status.PodIP + ":9090/metrics")
			if err != nil {
				return err
			}
			defer func() { _ = resp.Body.Close() }()
			text, err := io.ReadAll(resp.Body)
			if err == nil && !strings.Contains(string(text), "\n"+line+"\n") {
				err = errors.New("it has not")
			}
			return err
		})
	}
}

// panickingRoute makes the test build panic when it translates a route. Only requests to this route
// are answered 500.
func panickingRoute(s *site) {
	s.apply(`
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: faulty, annotations: {penstock.dev/fault: panic}}
spec:
  parentRefs: [{name: gw}]
  hostnames: [faulty.example]
  rules: [{backendRefs: [{name: chat, port: 80}]}]
`)
	s.within("the route answers 500", func() error {
		if got, err := s.answer("faulty.example", 0); err != nil || got != "500 " {
			return fmt.Errorf(`it answers %q: %w, want "500 "`, got, err)
		}
		return nil
	})
	s.goesOn()
	if err := s.dynamic.Resource(kindOf("gateway.networking.k8s.io", "v1", "httproutes")).Namespace(s.Namespace).
		Delete(s.Context(), "faulty", metav1.DeleteOptions{}); err != nil {
		s.Fatal(err)
	}
}

func (s *site) tryApply(manifests string) error {
	return installed.Apply(s.Context(), s.REST, s.Namespace, []byte(manifests))
}
