package kubestatus

import (
	"context"
	"encoding/json"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/kube"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/status/shape"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

func (w *Writer) writeStatus(ctx context.Context, ref report.Ref) error {
	table := w.tables[ref.Kind]
	if table == nil || table.Group() != ref.Group {
		return nil
	}
	live, ok := w.cfg.Source.Live(ref)
	if !ok {
		w.pace.drop(ref)
		return nil
	}
	w.mu.Lock()
	generation, translated := w.observed[ref]
	w.mu.Unlock()
	view := w.cfg.Store.View()
	obj, ok := table.Object(view, ref.Key())
	if !ok || !translated {
		return nil // Observe queues the object again once its newest generation is translated
	}
	reported, _ := w.cfg.Board.Get(ref)
	in := shape.Input{
		Report: reported, Object: obj, Old: live.Status, Generation: generation,
		Controller: w.cfg.Controller, Now: metav1.NewTime(w.cfg.Now().Truncate(time.Second)),
	}
	switch o := obj.(type) {
	case *gatewayv1.Gateway:
		w.gateway(&in, view, o)
	case *gatewayv1.ListenerSet:
		w.listenerSet(&in, o)
	case *v1alpha1.AccessPolicy:
		in.Gated = store.GatedTargets(view, o)
		w.accessPolicy(&in)
	case *gatewayv1.GatewayClass:
		in.Features, in.Supported = w.cfg.Features, supportedVersion(w.cfg.Source.Releases())
	}
	want := live.Shape().Make(in)
	if equality.Semantic.DeepEqual(live.Status, want) {
		return nil
	}
	body, err := statusPatch(live, want)
	if err != nil {
		return err
	}
	w.pace.wrote(ref, w.cfg.Now())
	return w.cfg.Source.Patch(ctx, ref, live, "status", body)
}

// statusPatch returns a merge patch from the current status, live, to the status want. The patch
// fails if the object has changed since live was read, so it overwrites no other client's write.
func statusPatch(live kube.Live, want any) ([]byte, error) {
	before, err := fields(live.Status)
	if err != nil {
		return nil, err
	}
	diff, err := fields(want)
	if err != nil {
		return nil, err
	}
	for name, old := range before {
		if now, ok := diff[name]; !ok {
			diff[name] = nil
		} else if reflect.DeepEqual(old, now) {
			delete(diff, name)
		}
	}
	return json.Marshal(map[string]any{"metadata": version(live), "status": diff})
}

func version(live kube.Live) map[string]any {
	return map[string]any{"uid": live.UID, "resourceVersion": live.ResourceVersion}
}

func fields(status any) (map[string]any, error) {
	raw, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	return out, json.Unmarshal(raw, &out)
}
