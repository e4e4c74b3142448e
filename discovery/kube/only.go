package kube

import (
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func only(all []*kind, wanted []Kind) []*kind {
	if len(wanted) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(k *kind) bool {
		i := slices.IndexFunc(wanted, func(w Kind) bool {
			return w.Kind == k.table.Kind() && w.Group == k.table.Group()
		})
		if i >= 0 {
			k.assumed, k.optional = true, !wanted[i].Required
		}
		return i < 0
	})
}

func (k *kind) installed() bool { return k.builtIn || k.assumed }

func absent(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) }
