package kube

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
)

var crdVersion = schema.GroupVersion{Group: "apiextensions.k8s.io", Version: "v1"}

const bundleVersion = "gateway.networking.k8s.io/bundle-version"

// crd is a CustomResourceDefinition without its schemas, which take most of its memory.
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

// DeepCopyObject copies no fields, because objects are never changed.
func (c *crd) DeepCopyObject() runtime.Object { d := *c; return &d }

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

func (c *crd) served() (out []string) {
	for _, v := range c.Spec.Versions {
		if v.Served {
			out = append(out, v.Name)
		}
	}
	slices.Sort(out)
	return out
}

type list[T any] struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []T `json:"items"`
}

func (l *list[T]) DeepCopyObject() runtime.Object { c := *l; return &c }

// Releases maps the plural name of each installed CRD of Gateway API to its release; "": unknown.
func (s *Source) Releases() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]string{}
	for _, k := range s.kinds {
		if c := s.crds[k]; c != nil && k.table.Group() == gatewayv1.GroupName {
			out[k.resource] = c.Annotations[bundleVersion]
		}
	}
	return out
}
