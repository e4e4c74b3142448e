package fleet

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/xds/fleet/apply"
	"github.com/penstock-project/penstock/xds/fleet/render"
)

func (f *Fleets) sync(ctx context.Context, k key) error {
	m, ready := f.member(k)
	if !ready {
		return nil
	}
	there := f.cfg.Cluster.Objects(k.namespace, k.fleet)
	f.mu.Lock()
	if delete(f.orphans, k); m == nil && len(there) > 0 {
		f.orphans[k] = struct{}{}
	}
	f.mu.Unlock()
	if m == nil {
		if !f.reportMissingClass(k, there) {
			f.clearReport(k)
		}
		return f.deleteAll(ctx, f.abandoned(k, there))
	}
	var err error
	switch {
	case m.Spec == nil: // not accepted: the proxies stay
	case m.Spec.Mode == v1alpha1.FleetExternal:
		err = f.deleteAll(ctx, ofGateway(m.object, there))
	default:
		err = f.manage(ctx, k, m, there)
	}
	f.report(k, m, f.cfg.Cluster.Objects(k.namespace, k.fleet), err)
	var invalidField *render.InvalidField
	switch {
	case errors.As(err, &invalidField):
		return nil // only a change by the user helps, and enqueues the fleet
	case errors.Is(err, apply.ErrNotOwned):
		f.addAfter(k, f.cfg.ConflictInterval) // objects without Penstock's label are not watched
		return nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil // the Gateway is deleted with its namespace
	}
	return err
}

func (f *Fleets) manage(ctx context.Context, k key, m *member, there []apply.Object) error {
	wanted, err := f.render(m, there)
	if err != nil {
		return err
	}
	var errs []error
	var invalidField error
	left := ofGateway(m.object, there)
	for _, obj := range wanted {
		ref := apply.Ref{Kind: obj.GetObjectKind().GroupVersionKind().Kind, Namespace: k.namespace, Name: k.fleet}
		left = slices.DeleteFunc(left, func(o apply.Object) bool { return o.Ref == ref })
		if err := f.apply(ctx, ref, obj, there); errors.As(err, new(*render.InvalidField)) {
			invalidField = err
		} else {
			errs = append(errs, err)
		}
	}
	// Errors that a retry may resolve come first; an invalid field needs the user.
	return cmp.Or(errors.Join(append(errs, f.deleteAll(ctx, left))...), invalidField)
}

// After a panic this fleet's proxies stay, and other fleets are reconciled.
func (f *Fleets) render(m *member, there []apply.Object) (wanted []render.Object, err error) {
	defer func() {
		if v := recover(); v != nil {
			if f.cfg.OnPanic != nil {
				f.cfg.OnPanic(objectid.Join(m.object.Namespace, m.object.Name), v, debug.Stack())
			}
			wanted, err = nil,
				fmt.Errorf("making the objects of the fleet panics, which is a bug of Penstock: %.256v", v)
		}
	}()
	return render.Objects(f.cfg.Settings(), render.Fleet{
		Gateway: m.object, Spec: m.Spec, Ports: ports(m.object, m.Bound), Running: running(there), Open: open(there),
	})
}

func (f *Fleets) apply(ctx context.Context, ref apply.Ref, obj render.Object, there []apply.Object) error {
	text, err := json.Marshal(obj)
	if err != nil {
		return fmt.Errorf("encode %s: %w", ref, err)
	}
	sum := sha256.Sum256(text)
	hash := hex.EncodeToString(sum[:])[:16]
	i := slices.IndexFunc(there, func(o apply.Object) bool { return o.Ref == ref })
	if i >= 0 && there[i].Deleting {
		return nil
	}
	if i >= 0 && there[i].Applied == hash {
		f.mu.Lock()
		mark, seen := f.marks[ref]
		f.marks[ref] = there[i].Mark
		f.mu.Unlock()
		if !seen || mark == there[i].Mark {
			return nil
		}
	}
	if err := f.cfg.Cluster.Apply(ctx, obj, hash, i >= 0); err != nil {
		if i >= 0 {
			err = cmp.Or(classImmutable(&there[i], obj, err), err)
		}
		return err
	}
	if ref.Kind == "Deployment" { // this replaces proxies
		done := "fleet created"
		if i >= 0 {
			done = "fleet updated"
		}
		f.cfg.Log.Info(done, "fleet", objectid.Join(ref.Namespace, ref.Name))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range f.cfg.Cluster.Objects(ref.Namespace, ref.Name) {
		if o.Ref == ref {
			f.marks[ref] = o.Mark
		}
	}
	return nil
}

func (f *Fleets) deleteAll(ctx context.Context, objects []apply.Object) error {
	var errs []error
	for _, o := range objects {
		if o.Deleting {
			continue
		}
		f.mu.Lock()
		delete(f.marks, o.Ref)
		f.mu.Unlock()
		errs = append(errs, f.cfg.Cluster.Delete(ctx, o))
	}
	return errors.Join(errs...)
}

// abandoned returns a fleet's objects if its Gateway has another class, or the class has another
// controller. If the class is missing, perhaps by mistake, the proxies stay.
func (f *Fleets) abandoned(k key, there []apply.Object) (out []apply.Object) {
	view := f.cfg.Store.View()
	for _, o := range there {
		gw, ok := store.Gateways.Get(view, objectid.Join(k.namespace, o.OwnerName))
		if !ok || string(gw.UID) != o.Owner {
			continue
		}
		class := string(gw.Spec.GatewayClassName)
		if _, ok := store.GatewayClasses.Get(view, class); ok || render.Name(gw.Name, class) != k.fleet {
			out = append(out, o)
		}
	}
	return out
}

func ofGateway(gw *gatewayv1.Gateway, there []apply.Object) (out []apply.Object) {
	for _, o := range there {
		if o.Owner == string(gw.UID) {
			out = append(out, o)
		}
	}
	return out
}

func running(there []apply.Object) int32 {
	for _, o := range there {
		if o.Kind == "Deployment" {
			return o.Replicas
		}
	}
	return 0
}

func open(there []apply.Object) []render.Socket {
	for _, o := range there {
		if o.Kind == "NetworkPolicy" {
			return o.Ports
		}
	}
	return nil
}

var served = map[gatewayv1.ProtocolType]string{
	gatewayv1.HTTPProtocolType: "http", gatewayv1.HTTPSProtocolType: "https", gatewayv1.TLSProtocolType: "tls",
	gatewayv1.TCPProtocolType: "tcp",
	gatewayv1.UDPProtocolType: "udp",
}

// A listener that serves nothing keeps its port, because load balancers are slow to change.
func ports(gw *gatewayv1.Gateway, bound []render.Port) (out []render.Port) {
	add := func(p render.Port) {
		if !slices.ContainsFunc(out, func(o render.Port) bool { return o.Socket() == p.Socket() }) {
			out = append(out, p)
		}
	}
	for _, l := range gw.Spec.Listeners {
		udp := l.Protocol == gatewayv1.UDPProtocolType
		if name := served[l.Protocol]; name != "" && (udp || l.Port != render.ReadyPort) {
			add(render.Port{Number: int32(l.Port), UDP: udp, Name: name})
		}
	}
	for _, p := range bound {
		add(p)
	}
	slices.SortFunc(out, render.Port.Compare)
	return out
}
