package hub

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	inventory "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	"sigs.k8s.io/cluster-inventory-api/pkg/access"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

var (
	profileKind = schema.GroupVersionResource{Group: inventory.GroupVersion.Group,
		Version: inventory.GroupVersion.Version, Resource: "clusterprofiles"}
	namespaceKind = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
)

// setLabel of a namespace names the cluster set whose ClusterProfiles are in that namespace
// (KEP-4322).
const setLabel = "multicluster.x-k8s.io/clusterset"

// byProfile builds the access to a ClusterProfile's cluster with the configured providers
// (KEP-5339).
func (h *Hub) byProfile(ctx context.Context, set string, m *v1alpha1.ClusterSetMember) (reach, *mistake) {
	at := objectid.Join(m.ClusterProfile.Namespace, m.ClusterProfile.Name)
	bad := func(name, problem, fix string) (reach, *mistake) {
		return reach{}, &mistake{Field: field(m, name), Problem: "ClusterProfile " + at + ": " + problem, Fix: fix}
	}
	if h.management == nil {
		return bad("clusterProfile", "the hub reads files, and no management cluster",
			"start it without -f, or write a kubeconfig")
	}
	if h.cfg.Providers == "" {
		return bad("clusterProfile", "the hub has no credential providers",
			"start it with --clusterprofile-provider-file FILE")
	}
	unread := func(field, what string, err error) (reach, *mistake) {
		if apierrors.IsNotFound(err) {
			return bad(field, what+" does not exist", "correct the name")
		}
		return bad(field, fmt.Sprintf("%s cannot be read: %.300v", what, err), "let the hub's service account get it")
	}
	ns, err := h.management.Resource(namespaceKind).Get(ctx, m.ClusterProfile.Namespace, metav1.GetOptions{})
	if err != nil {
		return unread("clusterProfile.namespace", "the namespace", err)
	}
	if ns.GetLabels()[setLabel] != set {
		return bad("clusterProfile.namespace",
			fmt.Sprintf("label %s of the namespace is %q, and the ClusterSet is %q", setLabel, ns.GetLabels()[setLabel],
				set), "label the namespace, or name a profile of this set")
	}
	u, err := h.management.Resource(profileKind).Namespace(m.ClusterProfile.Namespace).
		Get(ctx, m.ClusterProfile.Name, metav1.GetOptions{})
	if err != nil {
		return unread("clusterProfile.name", "it", err)
	}
	var profile inventory.ClusterProfile
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &profile); err != nil {
		return bad("clusterProfile.name", fmt.Sprintf("it cannot be read: %.300v", err),
			"install the CRD of a release with status.accessProviders")
	}
	if len(profile.Status.AccessProviders)+len(profile.Status.CredentialProviders) == 0 {
		return bad("clusterProfile.name", "its status.accessProviders is empty",
			"have the cluster manager write how the cluster is reached")
	}
	var providers access.Config // read anew, because building a config modifies its provider
	raw, err := h.cfg.Disk.Read(h.cfg.Providers)
	if err == nil {
		err = json.Unmarshal(raw, &providers)
	}
	if err != nil {
		return bad("clusterProfile", fmt.Sprintf("--clusterprofile-provider-file %s: %.300v", h.cfg.Providers, err),
			`write {"providers": [{"name": ..., "execConfig": ...}]} (KEP-5339)`)
	}
	out, err := providers.BuildConfigFromCP(&profile)
	if err != nil {
		return bad("clusterProfile.name", fmt.Sprintf("no provider of %s can be used: %.300v", h.cfg.Providers, err),
			"add a provider of one of the names in its status.accessProviders")
	}
	key, err := json.Marshal([]any{profile.Status.AccessProviders, profile.Status.CredentialProviders, providers})
	if err != nil {
		return bad("clusterProfile.name", err.Error(), "correct it")
	}
	return reach{out, string(key)}, nil
}
