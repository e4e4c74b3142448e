//go:build lab && linux

package lab_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/conformance/lab"
	"github.com/penstock-project/penstock/conformance/lab/image"
)

// patience is how long a test waits for what must come. It is generous: nothing here measures time.
const patience = 90 * time.Second

// running is the lab that the tests share: two clusters, so that one can be asked from the other.
var running *lab.Lab

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "lab")
	if err != nil {
		return failed(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	before := links()
	running, err = lab.Start(ctx, lab.Config{Dir: dir, Clusters: 2, Images: []image.Image{{Name: "shell", Program: "/bin/sh"}}})
	if err != nil {
		return failed(err)
	}
	code := m.Run()
	if err := running.Down(); err != nil {
		return failed(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		return failed(fmt.Errorf("the lab's folder is still there: %v", err))
	}
	for name := range links() {
		if !before[name] && strings.HasPrefix(name, "lab") {
			return failed(fmt.Errorf("the network interface %s is left", name))
		}
	}
	if left := processes(dir); len(left) > 0 {
		return failed(fmt.Errorf("processes are left: %q", left))
	}
	return code
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func links() map[string]bool {
	names := map[string]bool{}
	all, _ := net.Interfaces()
	for _, i := range all {
		names[i.Name] = true
	}
	return names
}

// processes are the command lines that name a folder.
func processes(dir string) []string {
	var found []string
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if raw, _ := os.ReadFile(f); strings.Contains(string(raw), dir) {
			found = append(found, strings.ReplaceAll(string(raw), "\x00", " "))
		}
	}
	return found
}

// client is an administrator's of one cluster.
func client(t *testing.T, contextName string) *kubernetes.Clientset {
	t.Helper()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: running.Kubeconfig()}, &clientcmd.ConfigOverrides{CurrentContext: contextName}).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// place is a namespace of a test's own in one cluster.
type place struct {
	*testing.T
	*kubernetes.Clientset
	namespace string
}

func newPlace(t *testing.T, contextName string) place {
	t.Helper()
	c := client(t, contextName)
	ns, err := c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p := place{t, c, ns.Name}
	p.until("the namespace's service account", func(ctx context.Context) error {
		_, err := c.CoreV1().ServiceAccounts(ns.Name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return p
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

// pod creates a pod as written.
func (p place) pod(manifest string) *corev1.Pod {
	p.Helper()
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(manifest), pod); err != nil {
		p.Fatal(err)
	}
	pod, err := p.CoreV1().Pods(p.namespace).Create(p.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		p.Fatal(err)
	}
	return pod
}

// logs are what a container said, in its life before this one if so asked.
func (p place) logs(ctx context.Context, pod, container string, previous bool) (string, error) {
	raw, err := p.CoreV1().Pods(p.namespace).GetLogs(pod, &corev1.PodLogOptions{Container: container, Previous: previous}).DoRaw(ctx)
	return string(raw), err
}

// says waits until a container's log holds all of the texts.
func (p place) says(pod, container string, texts ...string) {
	p.Helper()
	p.until("the log of "+pod+"/"+container, func(ctx context.Context) error {
		log, err := p.logs(ctx, pod, container, false)
		if err != nil {
			return err
		}
		for _, text := range texts {
			if !strings.Contains(log, text) {
				return fmt.Errorf("%q is not in %q", text, log)
			}
		}
		return nil
	})
}

// status waits until a pod's status is as wanted.
func (p place) status(name, what string, wanted func(corev1.PodStatus) bool) {
	p.Helper()
	p.until(what, func(ctx context.Context) error {
		pod, err := p.CoreV1().Pods(p.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !wanted(pod.Status) {
			raw, _ := yaml.Marshal(pod.Status)
			return fmt.Errorf("status of pod %s:\n%s", name, raw)
		}
		return nil
	})
}

func ready(s corev1.PodStatus) bool {
	for _, c := range s.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
