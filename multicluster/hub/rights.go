package hub

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/penstock-project/penstock/discovery/kube"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

type right struct {
	group, version, resource, kind string
	optional                       bool
	// kept converts objects of a kind without a table in the store; nil: the kind has a table. The
	// hub may be forbidden to read kinds without a table.
	// It returns nil for an invalid object.
	kept func(u *unstructured.Unstructured) runtime.Object
}

func (r right) gvr() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: r.group, Version: r.version, Resource: r.resource}
}

var rights = []right{
	{"", "v1", "namespaces", "Namespace", false, nil},
	{"", "v1", "services", "Service", false, nil},
	{"discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", false, nil},
	{"inference.networking.k8s.io", "v1", "inferencepools", "InferencePool", true, nil},
	{inferenceapi.Group, "v1alpha1", "inferencepoolimports", "InferencePoolImport", true, nil},
	{"gateway.networking.k8s.io", "v1", "gateways", "Gateway", true, nil},
	{"", "v1", nodeResource, "Node", true, keptNode},
	{v1alpha1.Group, v1alpha1.Version, poolExportResource, "PoolExport", true, keptExport},
}

// readable returns the installed kinds that the hub may read. A forbidden read is an error, unless
// the kind has right.kept.
func (c *cluster) readable(ctx context.Context, client dynamic.Interface) (out []right, err error) {
	for _, r := range rights {
		one, cancel := context.WithTimeout(ctx, 2*contactTimeout)
		_, err := client.Resource(r.gvr()).List(one, metav1.ListOptions{Limit: 1})
		cancel()
		switch {
		case err == nil:
			out = append(out, r)
		case apierrors.IsNotFound(err) && r.optional, apierrors.IsForbidden(err) && r.kept != nil:
		case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
			return nil, c.mistake(fmt.Sprintf("its credential may not list %s: %.300v",
				strings.TrimSuffix(r.resource+"."+r.group, "."), err),
				"apply in that cluster what `penstock hub rules` prints, and use the token of its service account")
		default:
			return nil, err
		}
	}
	return out, nil
}

func kinds(rights []right) (out []kube.Kind) {
	for _, r := range rights {
		if r.kept == nil {
			out = append(out, kube.Kind{Group: r.group, Kind: r.kind, Required: true})
		}
	}
	return out
}
