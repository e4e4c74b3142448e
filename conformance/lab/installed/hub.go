package installed

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/penstock-project/penstock/conformance/lab"
)

// Hub is a penstock hub process outside of the clusters.
type Hub struct {
	dir string
	cmd *exec.Cmd
}

// NewHub returns a hub without members. Its files are in dir.
func NewHub(dir string) (*Hub, error) {
	return &Hub{dir: dir}, os.MkdirAll(filepath.Join(dir, "members"), 0o700)
}

func program() (string, error) {
	root, err := lab.Repository()
	return filepath.Join(root, "bin", "penstock"), err
}

// Admit grants the hub the permissions of `penstock hub rules` in a cluster, and writes the hub's
// kubeconfig for this member.
func (h *Hub) Admit(ctx context.Context, name string, cluster *rest.Config) error {
	path, err := program()
	if err != nil {
		return err
	}
	rules, err := exec.CommandContext(ctx, path, "hub", "rules").Output()
	if err != nil {
		return fmt.Errorf("penstock hub rules: %w", err)
	}
	if err := Apply(ctx, cluster, "penstock-hub", rules); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cluster)
	if err != nil {
		return err
	}
	token, err := client.CoreV1().ServiceAccounts("penstock-hub").CreateToken(ctx, "penstock-hub",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	config := api.NewConfig()
	config.Clusters["it"] = &api.Cluster{Server: cluster.Host, CertificateAuthorityData: cluster.CAData,
		CertificateAuthority: cluster.CAFile, InsecureSkipTLSVerify: cluster.Insecure}
	config.AuthInfos["it"] = &api.AuthInfo{Token: token.Status.Token}
	config.Contexts["it"] = &api.Context{Cluster: "it", AuthInfo: "it"}
	config.CurrentContext = "it"
	return clientcmd.WriteToFile(*config, filepath.Join(h.dir, "members", name+".yaml"))
}

// Lead writes the hub's ClusterSet, with these members and their pods' address ranges.
func (h *Hub) Lead(podCIDRs string, members ...string) error {
	set :=
		"apiVersion: penstock.dev/v1alpha1\nkind: ClusterSet\nmetadata: {name: gpus}\nspec:\n  cluster: management\n " +
			" members:\n"
	for _, name := range members {
		set += fmt.Sprintf(
			"  - {name: %[1]s, kubeconfig: {file: %[1]s.yaml}, allow: {podCIDRs: [%[2]s], namespaces: [%[3]s], "+
				"cleartext: true}}\n", name, podCIDRs, strings.Join(Exported, ", "))
	}
	return os.WriteFile(filepath.Join(h.dir, "set.yaml"), []byte(set), 0o600)
}

// Start starts the hub, also after Kill. Requests to withdrawn exports have drainTime to end.
func (h *Hub) Start(drainTime string) error {
	path, err := program()
	if err != nil {
		return err
	}
	logs, err := os.OpenFile(h.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = logs.Close() }() // the process has its own descriptor
	args := []string{"hub", "-f", filepath.Join(h.dir, "set.yaml"), "--kubeconfigs", filepath.Join(h.dir, "members"),
		"--state", filepath.Join(h.dir, "state"), "--drain-time", drainTime}
	h.cmd = exec.Command(path, args...)
	h.cmd.Stdout, h.cmd.Stderr = logs, logs
	return h.cmd.Start()
}

// Kill kills the hub if it runs.
func (h *Hub) Kill() {
	if h.cmd != nil && h.cmd.ProcessState == nil {
		_ = h.cmd.Process.Kill()
		_ = h.cmd.Wait() // the error states that the hub was killed
	}
}

func (h *Hub) log() string { return filepath.Join(h.dir, "hub.log") }

// Log returns the last 4,000 bytes of the hub's log.
func (h *Hub) Log() string {
	raw, err := os.ReadFile(h.log())
	if err != nil {
		return err.Error()
	}
	return string(raw[max(0, len(raw)-4000):])
}
