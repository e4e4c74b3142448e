package main

import (
	"context"
	"fmt"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	cadvisorapiv2 "github.com/google/cadvisor/info/v2"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/cmd/kubelet/app"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	"k8s.io/kubernetes/pkg/kubelet/cadvisor"
	cadvisortesting "k8s.io/kubernetes/pkg/kubelet/cadvisor/testing"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig/configfiles"
	utilfs "k8s.io/kubernetes/pkg/util/filesystem"
	"k8s.io/kubernetes/pkg/util/oom"
)

// newKubelet replaces the container manager and cadvisor by stubs, because both need the machine's
// control groups. Settings come only from --config.
func newKubelet() *cobra.Command {
	flags := options.NewKubeletFlags()
	cmd := &cobra.Command{
		Use:          "kubelet",
		Short:        "the kubelet, without control groups",
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runKubelet(cmd.Context(), flags)
		},
	}
	flags.AddFlags(cmd.Flags())
	return cmd
}

func runKubelet(ctx context.Context, flags *options.KubeletFlags) error {
	loader, err := configfiles.NewFsLoader(&utilfs.DefaultFs{}, flags.KubeletConfigFile)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	config, err := loader.Load(ctx)
	if err != nil {
		return fmt.Errorf("--config %s: %w", flags.KubeletConfigFile, err)
	}
	gates := utilfeature.DefaultMutableFeatureGate
	if err := gates.SetFromMap(config.FeatureGates); err != nil {
		return fmt.Errorf("feature gates: %w", err)
	}
	server := &options.KubeletServer{KubeletFlags: *flags, KubeletConfiguration: *config}
	deps, err := app.UnsecuredDependencies(ctx, server, gates)
	if err != nil {
		return fmt.Errorf("kubelet: %w", err)
	}
	deps.CAdvisorInterface = machine{Interface: &cadvisortesting.Fake{NodeName: flags.HostnameOverride},
		dir: flags.RootDirectory}
	deps.ContainerManager = cm.NewStubContainerManager()
	deps.OOMAdjuster = oom.NewFakeOOMAdjuster()
	return app.Run(ctx, server, deps, gates)
}

// The node reports a capacity that is enough for any requests of pods.
const (
	cores  = 64
	memory = 256 << 30 // bytes
)

type machine struct {
	cadvisor.Interface
	dir string
}

func (m machine) MachineInfo() (*cadvisorapi.MachineInfo, error) {
	info, err := m.Interface.MachineInfo()
	if err != nil {
		return nil, err
	}
	info.NumCores, info.MemoryCapacity = cores, memory
	return info, nil
}

func (m machine) VersionInfo() (*cadvisorapi.VersionInfo, error) {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return nil, fmt.Errorf("uname: %w", err)
	}
	return &cadvisorapi.VersionInfo{KernelVersion: unix.ByteSliceToString(name.Release[:]),
		ContainerOsVersion: "processes of this machine"}, nil
}

func (m machine) RootFsInfo() (cadvisorapiv2.FsInfo, error)                     { return m.size() }
func (m machine) ImagesFsInfo(context.Context) (cadvisorapiv2.FsInfo, error)    { return m.size() }
func (m machine) ContainerFsInfo(context.Context) (cadvisorapiv2.FsInfo, error) { return m.size() }
func (m machine) GetDirFsInfo(string) (cadvisorapiv2.FsInfo, error)             { return m.size() }

func (m machine) size() (cadvisorapiv2.FsInfo, error) {
	var stat unix.Statfs_t
	if err := unix.Statfs(m.dir, &stat); err != nil {
		return cadvisorapiv2.FsInfo{}, fmt.Errorf("size of %s: %w", m.dir, err)
	}
	unit := uint64(stat.Bsize)
	return cadvisorapiv2.FsInfo{Mountpoint: m.dir, Capacity: stat.Blocks * unit, Available: stat.Bavail * unit,
		Usage: (stat.Blocks - stat.Bfree) * unit}, nil
}
