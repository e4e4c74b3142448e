package main

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/rest"

	"github.com/penstock-project/penstock/cmd/penstock/internal/app"
	"github.com/penstock-project/penstock/cmd/penstock/internal/state"
	"github.com/penstock-project/penstock/discovery/filesystem"
	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/manifests/features"
	"github.com/penstock-project/penstock/multicluster/hub"
)

type kubernetes struct {
	kubeconfig string
	namespace  string
	service    string
	watched    []string
	fleet      fleetFlags
}

func (k *kubernetes) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	kubeconfigFlag(f, &k.kubeconfig)
	f.StringVar(&k.namespace, "namespace", "",
		"namespace of penstock's Lease (default: the pod's namespace, else the kubeconfig's)")
	f.StringVar(&k.service, "service", "",
		"Service in that namespace that selects all penstock processes: Envoys reach the pickers at its port named "+
			app.PickerPort+", and the processes find each other at the one named "+app.PeerPort+" (default: none)")
	f.StringSliceVar(&k.watched, "watch-namespaces", nil, "namespace whose objects are read, besides --namespace; may "+
		"be repeated. Penstock ignores other namespaces, and needs no permission there (default: all namespaces)")
	k.fleet.flags(cmd)
}

func kubeconfigFlag(f *pflag.FlagSet, kubeconfig *string) {
	f.StringVar(kubeconfig, "kubeconfig", "", "kubeconfig file of the cluster to read instead of files (default: the "+
		"cluster that penstock runs in, if no -f is given)")
}

func memoryFlag(f *pflag.FlagSet, memory *resource.QuantityValue) {
	f.Var(memory, "memory-limit", "memory of the process's container, as a quantity such as 512Mi: Go's memory limit "+
		"is 10 percent below it, unless GOMEMLIMIT is set (default: none)")
}

func (k *kubernetes) wanted(paths []string) bool {
	return k.kubeconfig != "" || len(paths) == 0 && os.Getenv("KUBERNETES_SERVICE_HOST") != ""
}

func (k *kubernetes) config(cmd *cobra.Command, paths []string, s *secure) (*app.Kubernetes, error) {
	if len(paths) > 0 {
		return nil, errors.New("objects come from files or from a cluster: remove -f or --kubeconfig")
	}
	out := &app.Kubernetes{Features: features.Names()}
	var err error
	if out.REST, out.Namespace, err = clusterAt(&s.disk, k.kubeconfig); err != nil {
		return nil, err
	}
	out.Namespace = cmp.Or(k.namespace, out.Namespace)
	if out.Namespace == "" {
		return nil, errors.New("the namespace that penstock runs in is unknown: set it with --namespace")
	}
	if len(k.watched) > 0 {
		out.Namespaces = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(k.watched), out.Namespace))))
	}
	if out.Identity, err = processName(); err != nil {
		return nil, err
	}
	if k.service != "" {
		out.Service = objectid.Join(out.Namespace, strings.TrimPrefix(k.service, out.Namespace+"/"))
	}
	if out.Fleet, err = k.fleet.config(cmd, out, s); err != nil {
		return nil, err
	}
	return out, nil
}

// processName returns the leader election's identity. Its random suffix distinguishes two starts of
// a container, because each new leader must be a transition of the Lease: transitions number the
// epochs of publications.
func processName() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("name of this process: %w", err)
	}
	return fmt.Sprintf("%s-%d-%.8s", cmp.Or(os.Getenv("POD_NAME"), host), os.Getpid(),
		strings.ToLower(rand.Text())), nil
}

func clusterAt(disk *filesystem.Disk, kubeconfig string) (config *rest.Config, namespace string, err error) {
	if kubeconfig == "" {
		if config, err = rest.InClusterConfig(); err != nil {
			return nil, "", fmt.Errorf("cluster: %w", err)
		}
		namespace = cmp.Or(os.Getenv("POD_NAMESPACE"), ownNamespace())
	} else {
		_, loaded, err := hub.Kubeconfig(disk, kubeconfig)
		if err != nil {
			return nil, "", fmt.Errorf("--kubeconfig %s: %w", kubeconfig, err)
		}
		if config, namespace, err = hub.ClientConfig(disk, loaded, loaded.CurrentContext); err != nil {
			return nil, "", fmt.Errorf("--kubeconfig %s: %w", kubeconfig, err)
		}
	}
	config.UserAgent = "penstock"
	return config, namespace, nil
}

func ownNamespace() string {
	raw, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}

// clusterState returns penstock serve's state folder in Kubernetes, which only holds a socket.
func clusterState() (string, error) {
	home, err := state.Home()
	return filepath.Join(home, "cluster"), err
}
