package kube

import (
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
)

var crdVersion = schema.GroupVersion{Group: "apiextensions.k8s.io", Version: "v1"}

// bundleVersion is the annotation in which a CRD of Gateway API says of which release it is.
const bundleVersion = "gateway.networking.k8s.io/bundle-version"

// crd is what we want to know of a CustomResourceDefinition: not its schemas, which are most of it.
type crd struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		Versions []struct {
			Name   string `json:"name"`
			Served bool   `json:"served"`
		} `json:"versions"`
	} `json:"spec"`
	Status struct {
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
		} `json:"conditions"`
	} `json:"status"`
}

// DeepCopyObject implements runtime.Object. Nobody changes one.
func (c *crd) DeepCopyObject() runtime.Object { d := *c; return &d }

// serves is the best version of a list that the API server serves of the kind; "" for none.
func (c *crd) serves(wanted []string) string {
	established := false
	for _, cond := range c.Status.Conditions {
		established = established || cond.Type == "Established" && cond.Status == string(metav1.ConditionTrue)
	}
	if !established || c.DeletionTimestamp != nil {
		return ""
	}
	for _, v := range wanted {
		for _, have := range c.Spec.Versions {
			if have.Name == v && have.Served {
				return v
			}
		}
	}
	return ""
}

// served lists the versions that are served.
func (c *crd) served() (out []string) {
	for _, v := range c.Spec.Versions {
		if v.Served {
			out = append(out, v.Name)
		}
	}
	slices.Sort(out)
	return out
}

// list is the List kind of a CRD's objects, in whatever version it is served.
type list[T any] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []T `json:"items"`
}

// DeepCopyObject implements runtime.Object. Nobody changes one.
func (l *list[T]) DeepCopyObject() runtime.Object { c := *l; return &c }

// supportedVersion is what a GatewayClass says of the release of Gateway API that is installed: best effort for one that we
// do not know (GatewayClassConditionStatusSupportedVersion).
func (s *Source) supportedVersion() *report.Condition {
	s.mu.Lock()
	defer s.mu.Unlock()
	var odd []string
	for _, k := range s.kinds {
		c := s.crds[k]
		if c == nil || k.table.Group() != gatewayv1.GroupName {
			continue
		}
		switch v := c.Annotations[bundleVersion]; {
		case v == "":
			odd = append(odd, k.resource+" does not say its release")
		case !supportedBundle(v):
			odd = append(odd, k.resource+" is of release "+v)
		}
	}
	out := &report.Condition{Type: string(gatewayv1.GatewayClassConditionStatusSupportedVersion), Status: report.True, Reason: string(gatewayv1.GatewayClassReasonSupportedVersion)}
	if len(odd) > 0 {
		out.Status, out.Reason = report.False, string(gatewayv1.GatewayClassReasonUnsupportedVersion)
		out.Message = "CustomResourceDefinitions of Gateway API should be of releases v1.1 to v1.6; served as well as it goes: " + strings.Join(odd, ", ")
	}
	return out
}

// supportedBundle says whether a release of Gateway API is one whose v1 kinds we read whole: newer ones may have fields that
// we would not see, older ones lack v1 of kinds.
func supportedBundle(release string) bool {
	parts := strings.SplitN(strings.TrimPrefix(release, "v"), ".", 3)
	if len(parts) < 2 || parts[0] != "1" {
		return false
	}
	minor, err := strconv.Atoi(parts[1])
	return err == nil && minor >= 1 && minor <= 6
}
