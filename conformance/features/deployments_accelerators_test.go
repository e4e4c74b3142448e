package features

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const nvidiaSMI = `#!/bin/sh
[ "$1" = --query-gpu=index,uuid,name,memory.total,mig.mode.current ] || { echo "not a valid field: $1"; exit 2; }
echo '0, GPU-8e1b24a5-4a7e-6b4f-b1c2-1d0a5f3c9e11, NVIDIA L40S, 46068, [N/A]'
echo '1, GPU-1f0c7d9e-3b52-4c68-9a44-7be2d8f6a022, NVIDIA L40S, 46068, [N/A]'
`

// cudaServer appends its device variables to a file with its name, and serves.
const cudaServer = `#!/bin/sh
echo "$CUDA_DEVICE_ORDER $CUDA_VISIBLE_DEVICES" >> "FILES/$2.devices"
exec PENSTOCK sim --listen "$1" --name "$2" --model "$3"
`

// Tests write cudaEngine to its own file, because fixtures expand ${}.
const cudaEngine = `
apiVersion: penstock.dev/v1alpha1
kind: Engine
metadata: {name: cuda}
spec:
  versions:
  - version: v1
    supportedTasks: [text-generation]
    devices:
      list: [nvidia-smi, '--query-gpu=index,uuid,name,memory.total,mig.mode.current', '--format=csv,noheader,nounits']
      variable: CUDA_VISIBLE_DEVICES
    deployTemplate:
      process: {program: cuda-server, args: ['${host}:${port}', '${deployment}-${replica}', '${model.servedName}']}
`

func accelerated(t *testing.T) (s *site, dir string) {
	s = newSite(t)
	dir = t.TempDir()
	s.env = []string{"PATH=" + dir + ":/usr/bin:/bin", "CUDA_VISIBLE_DEVICES=0,1"}
	s.executable(dir, "nvidia-smi", nvidiaSMI)
	s.executable(dir, "cuda-server", cudaServer)
	s.Write("engine.yaml", cudaEngine)
	return s, dir
}

// executable writes a program. FILES in its text becomes dir, and PENSTOCK the binary.
func (s *site) executable(dir, name, text string) {
	s.Helper()
	text = strings.NewReplacer("FILES", dir, "PENSTOCK", binary).Replace(text)
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
		s.Fatal(err)
	}
}

// sees waits until a server has started, and returns its device variables at each start.
func (s *site) sees(dir, server string) (starts []string) {
	s.Helper()
	s.Eventually(server+" starts", func() error {
		raw, err := os.ReadFile(filepath.Join(dir, server+".devices"))
		starts = strings.Split(strings.TrimSpace(string(raw)), "\n")
		return err
	})
	return starts
}

func TestDeployment_ServersGetDifferentDevicesAndTheNextOneWaits(t *testing.T) {
	t.Parallel()
	s, dir := accelerated(t)
	all := []string{"gpu-a", "gpu-b", "gpu-c"}
	s.deploy(with(all...))
	reason := "it needs 1 device, and 0 of 2 are free: 0 is used by default/gpu-a/0; 1 is used by default/gpu-b/0"
	s.logged("ModelDeployment default/gpu-c is Pending: " + reason)
	for _, text := range []string{"server 0 uses device 0", "server 0 uses device 1"} {
		s.Eventually("status -o json has "+text, func() error {
			got, err := s.command("status", "-o", "json")
			return errors.Join(err, because(strings.Contains(got, text), got))
		})
	}
	want := func(server, devices string) {
		t.Helper()
		if got := s.sees(dir, server); len(got) != 1 || got[0] != devices {
			t.Errorf("%s starts with %q, want once with %q", server, got, devices)
		}
	}
	want("gpu-a-0", "PCI_BUS_ID 0")
	want("gpu-b-0", "PCI_BUS_ID 1")

	s.penstock.Signal(syscall.SIGKILL)
	<-s.penstock.Ended()
	s.up("deployments.yaml", with(all...))
	s.logged("ModelDeployment default/gpu-b is Running")
	s.logged("ModelDeployment default/gpu-c is Pending: " + reason)
	want("gpu-a-0", "PCI_BUS_ID 0")
	want("gpu-b-0", "PCI_BUS_ID 1")
	if _, err := os.Stat(filepath.Join(dir, "gpu-c-0.devices")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the devices of gpu-c, which has no room: got %v, want no file", err)
	}

	s.write("deployments.yaml", with("gpu-b", "gpu-c"))
	s.logged("ModelDeployment default/gpu-c is Running")
	want("gpu-c-0", "PCI_BUS_ID 0")
	want("gpu-b-0", "PCI_BUS_ID 1")
}

func TestDeployment_MistakesAboutDevicesNameTheField(t *testing.T) {
	t.Parallel()
	s, _ := accelerated(t)
	s.deploy(with("gpu-mistakes"))
	for _, text := range []string{
		`ModelDeployment default/gpu-half spec.resources.gpu: "1.5" devices: use a whole number, or a fraction of one`,
		"write 1, 2 or more, or a fraction such as 0.5",
		`ModelDeployment default/gpu-other spec.resources.accelerator: it needs 1 device with "H100" in the name, ` +
			"and this machine has 0",
		"write one of NVIDIA L40S, or remove it",
	} {
		s.reports(text)
	}
}
