package hub

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"

	"k8s.io/client-go/rest"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

type mistake struct {
	Field   string `json:"field"`
	Problem string `json:"problem"`
	Fix     string `json:"fix,omitempty"`
}

func (m *mistake) Error() string { return m.Field + ": " + m.Problem }

func (c *cluster) mistake(problem, fix string) *mistake {
	return &mistake{"spec.members[" + c.name + "]", problem, fix}
}

type reach struct {
	rest *rest.Config
	key  string
}

func (h *Hub) access(ctx context.Context, set string, m *v1alpha1.ClusterSetMember) (reach, *mistake) {
	switch {
	case m.Kubeconfig != nil:
		return h.byKubeconfig(m)
	case m.ClusterProfile != nil:
		return h.byProfile(ctx, set, m)
	}
	return reach{}, &mistake{Field: field(m, ""), Problem: "it has neither a kubeconfig nor a clusterProfile",
		Fix: "add one of them, or remove the member; a member that Penstocks exchange exports with has a peer"}
}

func field(m *v1alpha1.ClusterSetMember, name string) string {
	text := "spec.members[" + m.Name + "]"
	if name != "" {
		text += "." + name
	}
	return text
}

// byKubeconfig reads a mounted kubeconfig, whose paths are relative to its folder.
func (h *Hub) byKubeconfig(m *v1alpha1.ClusterSetMember) (reach, *mistake) {
	bad := func(name, problem, fix string) (reach, *mistake) {
		return reach{}, &mistake{Field: field(m, "kubeconfig."+name), Problem: problem, Fix: fix}
	}
	if h.cfg.Kubeconfigs == "" {
		return bad("file", "the hub has no folder of kubeconfigs", "start it with --kubeconfigs FOLDER")
	}
	path := filepath.Join(h.cfg.Kubeconfigs, m.Kubeconfig.File)
	raw, loaded, err := Kubeconfig(h.cfg.Disk, path)
	if raw == nil {
		return bad("file", fmt.Sprintf("it cannot be read: %v", err),
			"mount the kubeconfig into the folder of --kubeconfigs under that name")
	}
	if err != nil {
		return bad("file", fmt.Sprintf("it is no kubeconfig: %.300v", err),
			"write one as `kubectl config view --raw --flatten` prints it")
	}
	name := cmp.Or(m.Kubeconfig.Context, loaded.CurrentContext)
	if name == "" {
		return bad("context", fmt.Sprintf("%s has no current-context", path), "name one of its contexts")
	}
	if loaded.Contexts[name] == nil {
		return bad("context", fmt.Sprintf("%s has no context %q", path, name), "name one of its contexts")
	}
	out, _, err := ClientConfig(h.cfg.Disk, loaded, name)
	if err != nil {
		return bad("file", fmt.Sprintf("context %s of %s cannot be used: %.300v", name, path, err),
			"write cluster and user of the context into the file")
	}
	return reach{out, fmt.Sprintf("%x %s", sha256.Sum256(raw), name)}, nil
}
