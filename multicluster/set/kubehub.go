package set

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
)

// conditionHub is a condition of the hub's entry in status.controllers of an import. Its message
// has the hub that wrote last, its epoch, and the member for which it wrote.
const (
	conditionHub = "Hub"
	hubReason    = "Written"
	hubMessage   = "by hub %s, epoch %d, as member %s"
)

// EnqueueAll queues all imports for Lead.
func (k *Kubernetes) EnqueueAll() { k.enqueueAll(k.cfg.Store.View()) }

// Begin lets Lead write imports. A hub calls it once, after it has read the member's objects.
func (k *Kubernetes) Begin() {
	k.mu.Lock()
	k.exports = map[objectid.Pool]inferenceapi.ImportedCluster{}
	k.mu.Unlock()
}

func (k *Kubernetes) writeAsHub(ctx context.Context, p objectid.Pool) (out Written, err error) {
	view, hub := k.cfg.Store.View(), k.cfg.Hub
	obj, exists := store.InferencePoolImports.Get(view, p.String())
	generation, version, live := int64(1), "", &inferenceapi.InferencePoolImportStatus{}
	if exists {
		generation, version = obj.Generation, hub.Version(store.InferencePoolImports.Ref(obj))
		live = k.live(obj)
	}
	mine, _ := ownEntries(live, HubController)
	if err := k.fenced(live); err != nil {
		return out, err
	}
	if slices.ContainsFunc(mine, func(c string) bool { return !hub.Settled(c) }) {
		return Written{Clusters: mine}, nil
	}
	status, imported := k.status(p, generation)
	if !imported {
		return out, k.withdrawImport(ctx, p, obj, exists)
	}
	if !exists {
		if err := k.makeImport(ctx, p, hub.CreateNamespaces()); err != nil {
			return out, err
		}
	}
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	want := k.wantedStatus(&status, live, now)
	want.Controllers[0].Conditions = append(want.Controllers[0].Conditions, metav1.Condition{
		Type: conditionHub, Status: metav1.ConditionTrue, Reason: hubReason,
		Message: fmt.Sprintf(hubMessage, hub.UID, hub.Epoch, hub.Member), LastTransitionTime: now,
	})
	want, out.Left = k.acceptable(p, want, live)
	k.mu.Lock()
	last := k.written[p]
	k.mu.Unlock()
	if by, _ := writtenBy(live); by.uid == hub.UID && k.mirrors(live, &want) &&
		(last == nil || has(last, &want, true) && len(last.Clusters) == len(want.Clusters)) {
		out.Clusters, _ = ownEntries(&want, HubController)
		return out, nil
	}
	applied, err := k.writeAccepted(ctx, p, version, want, out.Left)
	if out.Clusters, _ = ownEntries(&applied, HubController); len(applied.Controllers) == 0 {
		out.Clusters = mine
	}
	k.mu.Lock()
	if delete(k.written, p); err == nil {
		want = lessClusters(want, out.Left)
		k.written[p] = &want // Live may lag behind this write
	}
	k.mu.Unlock()
	return out, err
}

func (k *Kubernetes) fenced(live *inferenceapi.InferencePoolImportStatus) error {
	hub := k.cfg.Hub
	by, ok := writtenBy(live)
	uid, epoch := by.uid, by.epoch
	switch {
	case ok && uid == hub.UID && epoch == hub.Epoch && by.member != "" && by.member != hub.Member &&
		hub.IsMember(by.member):
		return fmt.Errorf("%w: this leader wrote it as member %s, and member %s is the same cluster: remove one of "+
			"them; if their names were exchanged, start the hub again",
			ErrFenced, by.member, hub.Member)
	case !ok, hub.TakeOver && uid != hub.UID, uid == hub.UID && epoch <= hub.Epoch:
		return nil
	case uid == hub.UID:
		return fmt.Errorf("%w: a later leader of this hub writes it, in epoch %d; this one is %d", ErrFenced, epoch,
			hub.Epoch)
	default:
		return fmt.Errorf("%w: hub %s writes it: stop that one, or start this hub (%s) with --take-over", ErrFenced,
			uid, hub.UID)
	}
}

// hubMark is the parsed message of conditionHub. Earlier releases wrote no member.
type hubMark struct {
	uid    string
	epoch  uint64
	member string
}

func writtenBy(s *inferenceapi.InferencePoolImportStatus) (by hubMark, ok bool) {
	for _, c := range part(s, HubController).Conditions {
		if c.Type != conditionHub {
			continue
		}
		text, member, _ := strings.Cut(c.Message, ", as member ")
		if _, err := fmt.Sscanf(strings.Replace(text, ",", " ,", 1), "by hub %s , epoch %d", &by.uid,
			&by.epoch); err == nil {
			by.member = member
			return by, true
		}
	}
	return hubMark{}, false
}

// HubEntries returns the exporting clusters whose entries in an import a hub wrote.
func HubEntries(s *inferenceapi.InferencePoolImportStatus) []string {
	clusters, _ := ownEntries(s, HubController)
	return clusters
}
