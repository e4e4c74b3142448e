//go:build linux

package cri

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/penstock-project/penstock/conformance/lab/image"
	"github.com/penstock-project/penstock/conformance/lab/network"
)

func TestCRI_CommandAndArgsOverrideImage(t *testing.T) {
	img := image.Image{Program: "/opt/server", First: []string{"run"}, Args: []string{"--default"}}
	for _, test := range []struct{ command, args, want []string }{
		{nil, nil, []string{"/usr/local/bin/server", "run", "--default"}},
		{nil, []string{"--mine"}, []string{"/usr/local/bin/server", "run", "--mine"}},
		{[]string{"sh"}, nil, []string{"sh"}},
		{[]string{"sh", "-c"}, []string{"true"}, []string{"sh", "-c", "true"}},
	} {
		c := &container{image: img, config: &runtimeapi.ContainerConfig{Command: test.command, Args: test.args}}
		if d := cmp.Diff(test.want, c.arguments()); d != "" {
			t.Errorf("command %q, args %q: want these arguments (-want +got):\n%s", test.command, test.args, d)
		}
	}
}

func TestCRI_ContainerEnvironmentOverridesImage(t *testing.T) {
	c := &container{
		pod:    &pod{config: &runtimeapi.PodSandboxConfig{Hostname: "web-0"}},
		image:  image.Image{Env: []string{"COLOR=red", "PATH=/opt"}},
		config: &runtimeapi.ContainerConfig{Envs: []*runtimeapi.KeyValue{{Key: "COLOR", Value: []byte("green")}}},
	}
	got := map[string]string{}
	for _, e := range c.environment() {
		name, value, _ := strings.Cut(e, "=")
		if old, ok := got[name]; ok {
			t.Errorf("%s is %q and %q, want it once", name, old, value)
		}
		got[name] = value
	}
	if d := cmp.Diff(map[string]string{"COLOR": "green", "PATH": "/opt", "HOME": "/root", "HOSTNAME": "web-0"},
		got); d != "" {
		t.Errorf("want this environment (-want +got):\n%s", d)
	}
}

func TestCRI_LogKeepsLongAndUnterminatedLines(t *testing.T) {
	l := &logFile{path: filepath.Join(t.TempDir(), "0.log")}
	if err := l.open(); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", longest)
	l.copy("stdout", strings.NewReader("one\n"+long+"y\n\nlast"))
	l.close()
	raw, err := os.ReadFile(l.path)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(raw)) {
		_, rest, _ := strings.Cut(line, " ") // the line begins with the time
		got = append(got, rest)
	}
	want := []string{"stdout F one\n", "stdout P " + long + "\n", "stdout F y\n", "stdout F \n", "stdout F last\n"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("want these lines (-want +got):\n%s", d)
	}
}

func TestCRI_AddressIsReusedLast(t *testing.T) {
	s := New(Config{Plan: network.Plan{Slot: 3}})
	first, err := s.address()
	if err != nil {
		t.Fatal(err)
	}
	delete(s.addresses, first)
	seen := map[netip.Addr]bool{first: true}
	for range 1<<15 - 2 { // all other addresses of a /17
		addr, err := s.address()
		if err != nil {
			t.Fatal(err)
		}
		if seen[addr] || !s.Plan.Pods().Contains(addr) || addr == s.Plan.Pods().Addr() {
			t.Fatalf("got %s, want an address of the pods that is free", addr)
		}
		seen[addr] = true
	}
	if again, err := s.address(); err != nil || again != first {
		t.Errorf("%s, %v; want the first again, %s", again, err, first)
	}
	if _, err := s.address(); err == nil {
		t.Error("an address in use was assigned")
	}
}
