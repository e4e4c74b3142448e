package kube

import (
	"context"
	"encoding/json"
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// ending is what the API server has of an object that decides whether it may go. Kept of GatewayClasses only.
type ending struct {
	finalizers []string
	begun      bool // it is being deleted: the API server takes no new finalizer
	told       bool // that it waits for Gateways; only hold, which never runs twice for an object at a time, asks and sets it
}

func endingOf(obj store.Object) *ending {
	if _, ok := obj.(*gatewayv1.GatewayClass); !ok {
		return nil
	}
	return &ending{finalizers: slices.Clone(obj.GetFinalizers()), begun: obj.GetDeletionTimestamp() != nil}
}

// hold keeps a class of ours while Gateways name it, and lets it go after the last of them (Gateway API,
// GatewayClassFinalizerGatewaysExist): without its class a Gateway is nobody's, and its listeners would close.
func (w *Writer) hold(ctx context.Context, ref report.Ref) error {
	s := w.cfg.Source
	now, ok := s.lives.get(ref)
	if !ok || now.ending == nil {
		return nil
	}
	view := s.store.View()
	class, ok := store.GatewayClasses.Get(view, ref.Name)
	if !ok || string(class.Spec.ControllerName) != w.cfg.Controller {
		return nil
	}
	users := store.Gateways.By(view, store.ByClass, class.Name)
	held := slices.Contains(now.ending.finalizers, gatewayv1.GatewayClassFinalizerGatewaysExist)
	finalizers := slices.Clone(now.ending.finalizers)
	switch {
	case len(users) > 0 && held && now.ending.begun:
		if now.ending.told {
			return nil
		}
		now.ending.told = true
		w.cfg.Log.Warn("a GatewayClass is to be deleted, and stays until no Gateway names it", "object", ref.String(), "gateways", len(users), "gateway", store.ID(users[0]))
		return nil
	case len(users) > 0 && !held && !now.ending.begun:
		finalizers = append(finalizers, gatewayv1.GatewayClassFinalizerGatewaysExist)
	case len(users) == 0 && held:
		finalizers = slices.DeleteFunc(finalizers, func(f string) bool { return f == gatewayv1.GatewayClassFinalizerGatewaysExist })
	default:
		return nil
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": now.uid, "resourceVersion": now.resourceVersion, "finalizers": finalizers}})
	if err != nil {
		return err
	}
	w.pace.note(ref, w.cfg.Now())
	after, err := s.client.patch(ctx, now.kind, s.version(now.kind), ref.Key(), "", body)
	if err != nil {
		return err
	}
	s.lives.wrote(ref, after, now.kind.status.Take(after))
	return nil
}
