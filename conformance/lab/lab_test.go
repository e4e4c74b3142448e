//go:build lab && linux

package lab_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/conformance/lab"
	"github.com/penstock-project/penstock/conformance/lab/image"
	"github.com/penstock-project/penstock/conformance/lab/labtest"
	"github.com/penstock-project/penstock/conformance/lab/network"
)

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
	running, err = lab.Start(ctx, lab.Config{Dir: dir, Clusters: 2, Images: []image.Image{{Name: "shell", Program: "/bin/sh"}}})
	if err != nil {
		return failed(err)
	}
	links, err := links(running.Kubeconfig())
	if err != nil {
		return failed(errors.Join(err, running.Down()))
	}
	code := m.Run()
	if err := running.Down(); err != nil {
		return failed(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		return failed(fmt.Errorf("the lab's folder is still there: %v", err))
	}
	if left := there(links); len(left) > 0 {
		return failed(fmt.Errorf("network interfaces are left: %q", left))
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

// links are the network interfaces of a lab's clusters: others may run beside it.
func links(kubeconfig string) (names []string, err error) {
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return nil, err
	}
	for _, c := range config.Clusters {
		server, err := url.Parse(c.Server)
		if err != nil {
			return nil, err
		}
		node, err := netip.ParseAddr(server.Hostname())
		if err != nil {
			return nil, err
		}
		for slot := range network.Slots {
			if plan := (network.Plan{Slot: slot}); plan.Node() == node {
				names = append(names, plan.Link())
			}
		}
	}
	if len(names) != len(config.Clusters) {
		return nil, fmt.Errorf("%d clusters have the network interfaces %q", len(config.Clusters), names)
	}
	return names, nil
}

// there are those of some network interfaces that the machine has.
func there(links []string) (names []string) {
	for _, name := range links {
		if _, err := net.InterfaceByName(name); err == nil {
			names = append(names, name)
		}
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

// place is a namespace of a test's own in one cluster.
type place struct{ labtest.Place }

func newPlace(t *testing.T, contextName string) place {
	t.Helper()
	p := place{labtest.NewPlace(t, running.Kubeconfig(), contextName)}
	p.Until("the namespace's service account", func(ctx context.Context) error {
		_, err := p.CoreV1().ServiceAccounts(p.Namespace).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return p
}

// pod creates a pod as written.
func (p place) pod(manifest string) *corev1.Pod {
	p.Helper()
	pod := &corev1.Pod{}
	if err := yaml.UnmarshalStrict([]byte(manifest), pod); err != nil {
		p.Fatal(err)
	}
	pod, err := p.CoreV1().Pods(p.Namespace).Create(p.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		p.Fatal(err)
	}
	return pod
}

// logs are what a container said, in its life before this one if so asked.
func (p place) logs(ctx context.Context, pod, container string, previous bool) (string, error) {
	raw, err := p.CoreV1().Pods(p.Namespace).GetLogs(pod, &corev1.PodLogOptions{Container: container, Previous: previous}).DoRaw(ctx)
	return string(raw), err
}

// says waits until a container's log holds all of the texts.
func (p place) says(pod, container string, texts ...string) {
	p.Helper()
	p.Until("the log of "+pod+"/"+container, func(ctx context.Context) error {
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
	p.Until(what, func(ctx context.Context) error {
		pod, err := p.CoreV1().Pods(p.Namespace).Get(ctx, name, metav1.GetOptions{})
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
