//go:build lab && linux

package lab_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/penstock-project/penstock/conformance/lab"
	"github.com/penstock-project/penstock/conformance/lab/image"
	"github.com/penstock-project/penstock/conformance/lab/labtest"
	"github.com/penstock-project/penstock/conformance/lab/network"
)

var running *lab.Lab

func TestMain(m *testing.M) {
	var links []string
	os.Exit(labtest.Main(m, func(ctx context.Context, dir string) (_ *lab.Lab, err error) {
		if running, err = lab.Start(ctx, lab.Config{
			Dir: dir, Clusters: 2, Images: []image.Image{{Name: "shell", Program: "/bin/sh"}},
		}); err == nil {
			links, err = linksOf(running.Kubeconfig())
		}
		return running, err
	}, func(dir string) error { return remains(dir, links) }))
}

func remains(dir string, links []string) error {
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		return fmt.Errorf("the lab's folder: got %v, want it removed", err)
	}
	if left := there(links); len(left) > 0 {
		return fmt.Errorf("network interfaces: got %q, want none", left)
	}
	if left := processes(dir); len(left) > 0 {
		return fmt.Errorf("processes: got %q, want none", left)
	}
	return nil
}

// linksOf returns the network interfaces of a lab's clusters. Other labs may run at the same time.
func linksOf(kubeconfig string) (names []string, err error) {
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
		return nil, fmt.Errorf("network interfaces: got %[2]q, want one of each of %[1]d clusters",
			len(config.Clusters), names)
	}
	return names, nil
}

func there(links []string) (names []string) {
	for _, name := range links {
		if _, err := net.InterfaceByName(name); err == nil {
			names = append(names, name)
		}
	}
	return names
}

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

func (p place) logged(pod, container string, texts ...string) {
	p.Helper()
	p.Until("the log of "+pod+"/"+container, func(ctx context.Context) error {
		log, err := p.PodLog(ctx, p.Namespace, pod, container, false)
		if err != nil {
			return err
		}
		for _, text := range texts {
			if !strings.Contains(log, text) {
				return fmt.Errorf("the log: got %q, want %q", log, text)
			}
		}
		return nil
	})
}

func (p place) status(name, what string, wanted func(corev1.PodStatus) bool) {
	p.Helper()
	p.Until(what, func(ctx context.Context) error {
		pod, err := p.CoreV1().Pods(p.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !wanted(pod.Status) {
			raw, _ := yaml.Marshal(pod.Status)
			return fmt.Errorf("pod %s: want %s, got\n%s", name, what, raw)
		}
		return nil
	})
}
