package set

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	upstream "sigs.k8s.io/gateway-api-inference-extension/apix/v1alpha1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/manifests/deepcopy"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
)

// An API server rejects the whole status of an import because of one entry. Entries fit the schema,
// but an admission policy may reject them. Such entries are left out.

// rejectedFor is how long a rejected entry is left out if it does not change.
const rejectedFor = 10 * time.Minute

const longestWhy = 400

type rejection struct {
	entry inferenceapi.ImportedCluster
	why   string
	at    time.Time
}

func rejects(err error) bool {
	var status apierrors.APIStatus
	if err == nil || !errors.As(err, &status) || apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return false
	}
	switch status.Status().Code {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusUnprocessableEntity, http.StatusRequestEntityTooLarge:
		return true
	case http.StatusInternalServerError: // a broken webhook causes this status, too
		return slices.ContainsFunc(unstorable, func(text string) bool {
			return strings.Contains(status.Status().Message, text)
		})
	}
	return false
}

// unstorable has texts of errors with status 500 after which the API server can never store the
// write.
var unstorable = []string{
	"etcdserver: request is too large", "trying to send message larger than max",
	"failed to create typed ", "duplicate entries for key",
}

// accepts reports whether the result of a write means that an API server accepts it, at least
// without the fields of other managers.
func accepts(err error) bool {
	var several interface{ Unwrap() []error } // the write without the fields failed, too
	return err == nil || apierrors.IsConflict(err) && !errors.As(err, &several)
}

func brief(err error) string {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(err.Error(), "?")), " ")
	if len(text) > longestWhy {
		text = strings.ToValidUTF8(text[:longestWhy], "") + "..."
	}
	return text
}

func lessClusters(s inferenceapi.InferencePoolImportStatus,
	left map[string]string) inferenceapi.InferencePoolImportStatus {
	if len(left) == 0 {
		return s
	}
	s.Clusters = slices.DeleteFunc(slices.Clone(s.Clusters), func(c inferenceapi.ImportedCluster) bool {
		_, ok := left[c.Name]
		return ok
	})
	s.Controllers = slices.Clone(s.Controllers)
	s.Controllers[0].ExportingClusters = slices.DeleteFunc(
		slices.Clone(s.Controllers[0].ExportingClusters), func(c upstream.ExportingCluster) bool {
			_, ok := left[string(c.Name)]
			return ok
		})
	return s
}

func (k *Kubernetes) acceptable(
	p objectid.Pool, want inferenceapi.InferencePoolImportStatus, live *inferenceapi.InferencePoolImportStatus,
) (_ inferenceapi.InferencePoolImportStatus, left map[string]string) {
	room := inferenceapi.Room
	if k.cfg.Hub != nil && k.prunes() {
		room = inferenceapi.RoomCarried
	}
	stay, _ := ownEntries(live, k.controller())
	_, left = inferenceapi.Fit(want.Clusters, room, stay)
	k.mu.Lock()
	defer k.mu.Unlock()
	for i := range want.Clusters {
		c := &want.Clusters[i]
		if r, ok := k.rejected[p][c.Name]; ok && time.Since(r.at) < rejectedFor && sameEntry(&r.entry, c) {
			left[c.Name] = r.why
		}
	}
	return lessClusters(want, left), left
}

func sameEntry(a, b *inferenceapi.ImportedCluster) bool {
	x, y := *a, *b
	x.Conditions, y.Conditions = nil, nil
	return reflect.DeepEqual(x, y)
}

// writeAccepted writes the clusters of a status that the API server accepts. It adds the others,
// with reasons, to left.
func (k *Kubernetes) writeAccepted(
	ctx context.Context, p objectid.Pool, version string, want inferenceapi.InferencePoolImportStatus,
	left map[string]string,
) (inferenceapi.InferencePoolImportStatus, error) {
	applied, err := k.writeStatus(ctx, p, writing{version: version}, want)
	if !rejects(err) || len(want.Clusters) == 0 {
		k.forgetRejected(p, left)
		return applied, err
	}
	bad := k.search(ctx, p, version, want)
	if len(bad) == 0 {
		return applied, err
	}
	applied, err = k.writeStatus(ctx, p, writing{version: version}, lessClusters(want, bad))
	if len(applied.Controllers) > 0 { // the status was written, perhaps after a conflict
		k.noteRejected(p, want, bad)
		maps.Copy(left, bad)
	}
	return applied, err
}

// search finds the clusters that the API server rejects, by dry runs with halves of the list; none
// if it rejects the status even without clusters.
func (k *Kubernetes) search(
	ctx context.Context, p objectid.Pool, version string, want inferenceapi.InferencePoolImportStatus,
) map[string]string {
	try := func(list []inferenceapi.ImportedCluster) error {
		others := map[string]string{}
		for _, c := range want.Clusters {
			if !slices.ContainsFunc(list, func(o inferenceapi.ImportedCluster) bool { return o.Name == c.Name }) {
				others[c.Name] = ""
			}
		}
		_, err := k.writeStatus(ctx, p, writing{version: version, dry: true}, lessClusters(want, others))
		return err
	}
	bad := map[string]string{}
	if !accepts(try(nil)) {
		return bad
	}
	var halve func(list []inferenceapi.ImportedCluster)
	halve = func(list []inferenceapi.ImportedCluster) {
		err := try(list)
		switch {
		case !rejects(err):
		case len(list) == 1:
			if err = try(list); !rejects(err) {
				return
			}
			bad[list[0].Name] = fmt.Sprintf("the API server rejects the entry: %s", brief(err))
		default:
			halve(list[:len(list)/2])
			halve(list[len(list)/2:])
		}
	}
	halve(want.Clusters)
	if len(bad) > 0 && !accepts(try(nil)) { // the API server now rejects any write
		clear(bad)
	}
	return bad
}

func (k *Kubernetes) noteRejected(p objectid.Pool, want inferenceapi.InferencePoolImportStatus, bad map[string]string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.rejected[p] == nil {
		k.rejected[p] = map[string]rejection{}
	}
	for _, c := range want.Clusters {
		why, ok := bad[c.Name]
		if !ok {
			continue
		}
		if k.rejected[p][c.Name].why != why {
			k.cfg.Log.Warn("an entry of an import is left out", "pool", p.String(), "cluster", c.Name, "reason", why)
		}
		k.rejected[p][c.Name] = rejection{*deepcopy.Of(&c), why, time.Now()}
	}
}

func (k *Kubernetes) forgetRejected(p objectid.Pool, left map[string]string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	maps.DeleteFunc(k.rejected[p], func(cluster string, _ rejection) bool {
		_, still := left[cluster]
		return !still
	})
	if len(k.rejected[p]) == 0 {
		delete(k.rejected, p)
	}
}

func (k *Kubernetes) triesAgain(p objectid.Pool, left map[string]string) time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	in := rejectedFor
	for cluster := range left {
		if r, ok := k.rejected[p][cluster]; ok {
			if due := rejectedFor - time.Since(r.at); due > 0 {
				in = min(in, due)
			}
		}
	}
	return in
}

func leftOut(left map[string]string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if len(list) == mostLeftOut {
			list = append(list, fmt.Sprintf("and %d more", len(left)-mostLeftOut))
			break
		}
		list = append(list, fmt.Sprintf("%s: %s", name, left[name]))
	}
	return strings.Join(list, "; ")
}

const mostLeftOut = 4
