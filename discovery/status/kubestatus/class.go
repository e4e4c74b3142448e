package kubestatus

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
)

// holdClass keeps a finalizer on a GatewayClass while Gateways name the class (Gateway API,
// GatewayClassFinalizerGatewaysExist). Without the class, these Gateways would have no controller,
// and their listeners would close.
func (w *Writer) holdClass(ctx context.Context, ref report.Ref) error {
	live, ok := w.cfg.Source.Live(ref)
	if !ok || live.Ending == nil {
		return nil
	}
	view := w.cfg.Store.View()
	class, ok := store.GatewayClasses.Get(view, ref.Name)
	if !ok || string(class.Spec.ControllerName) != w.cfg.Controller {
		return nil
	}
	users := store.Gateways.By(view, store.ByClass, class.Name)
	held := slices.Contains(live.Ending.Finalizers, gatewayv1.GatewayClassFinalizerGatewaysExist)
	finalizers := slices.Clone(live.Ending.Finalizers)
	switch {
	case len(users) > 0 && held && live.Ending.Deleting:
		if w.firstWarning(ref) {
			w.cfg.Log.Warn("a GatewayClass is being deleted, and stays until no Gateway names it", "object",
				ref.String(), "gateways", len(users), "gateway", store.ID(users[0]))
		}
		return nil
	case len(users) > 0 && !held && !live.Ending.Deleting:
		finalizers = append(finalizers, gatewayv1.GatewayClassFinalizerGatewaysExist)
	case len(users) == 0 && held:
		finalizers = slices.DeleteFunc(finalizers,
			func(f string) bool { return f == gatewayv1.GatewayClassFinalizerGatewaysExist })
	default:
		return nil
	}
	metadata := version(live)
	metadata["finalizers"] = finalizers
	body, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	w.pace.wrote(ref, w.cfg.Now())
	return w.cfg.Source.Patch(ctx, ref, live, "", body)
}

func (w *Writer) firstWarning(ref report.Ref) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	first := !w.warned[ref]
	w.warned[ref] = true
	return first
}

func supportedVersion(releases map[string]string) *report.Condition {
	var unsupported []string
	for crd, release := range releases {
		switch {
		case release == "":
			unsupported = append(unsupported, crd+" does not name its release")
		case !supportedRelease(release):
			unsupported = append(unsupported, crd+" is of release "+release)
		}
	}
	slices.Sort(unsupported)
	out := &report.Condition{Type: string(gatewayv1.GatewayClassConditionStatusSupportedVersion), Status: report.True,
		Reason: string(gatewayv1.GatewayClassReasonSupportedVersion)}
	if len(unsupported) > 0 {
		out.Status, out.Reason = report.False, string(gatewayv1.GatewayClassReasonUnsupportedVersion)
		out.Message =
			"CustomResourceDefinitions of Gateway API should be of releases v1.1 to v1.6; fields of other releases " +
				"may be ignored: " + strings.Join(unsupported, ", ")
	}
	return out
}

// supportedRelease reports whether Penstock supports a release of the Gateway API's CRDs. Newer
// releases have further fields. In older releases, some kinds have no version v1.
func supportedRelease(release string) bool {
	parts := strings.SplitN(strings.TrimPrefix(release, "v"), ".", 3)
	if len(parts) < 2 || parts[0] != "1" {
		return false
	}
	minor, err := strconv.Atoi(parts[1])
	return err == nil && minor >= 1 && minor <= 6
}
