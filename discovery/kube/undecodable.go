package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

const undecodable = "penstock.dev/undecodable"

// Any user who may write objects can cause findings about undecodable objects. maxReason bounds the
// reason in a finding, in bytes. mostUndecodable bounds the number of findings.
const (
	maxReason       = 300
	mostUndecodable = 50
)

// tolerant wraps a serializer. If the CRD's schema allows an object that the Go type cannot hold,
// such as one with a forwardBody.maxSize above a uint16, tolerant decodes only the metadata.
// Otherwise, one such object would make the list or watch of its kind fail.
type tolerant struct{ runtime.NegotiatedSerializer }

func (t tolerant) DecoderToVersion(d runtime.Decoder, gv runtime.GroupVersioner) runtime.Decoder {
	return tolerantDecoder{t.NegotiatedSerializer.DecoderToVersion(d, gv)}
}

type tolerantDecoder struct{ runtime.Decoder }

func (d tolerantDecoder) Decode(
	data []byte, defaults *schema.GroupVersionKind, into runtime.Object,
) (runtime.Object, *schema.GroupVersionKind, error) {
	obj, gvk, err := d.Decoder.Decode(data, defaults, into)
	if err == nil || !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return obj, gvk, err
	}
	less, changed := d.withoutUndecodable(data, err)
	if !changed {
		return obj, gvk, err
	}
	return d.Decoder.Decode(less, defaults, into)
}

func (d tolerantDecoder) withoutUndecodable(data []byte, reason error) (less []byte, changed bool) {
	var list struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        json.RawMessage   `json:"metadata"`
		Items           []json.RawMessage `json:"items"`
	}
	if json.Unmarshal(data, &list) != nil {
		return nil, false
	}
	if list.Items == nil {
		return hollow(data, reason)
	}
	for i, item := range list.Items {
		if _, _, err := d.Decoder.Decode(item, nil, nil); err != nil {
			if less, ok := hollow(item, err); ok {
				list.Items[i], changed = less, true
			}
		}
	}
	if !changed {
		return nil, false
	}
	less, err := json.Marshal(list)
	return less, err == nil
}

func hollow(data []byte, reason error) ([]byte, bool) {
	var o struct {
		metav1.TypeMeta   `json:",inline"`
		metav1.ObjectMeta `json:"metadata"`
	}
	if json.Unmarshal(data, &o) != nil || o.Kind == "" || o.Name == "" {
		return nil, false
	}
	text := reason.Error()
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	o.Annotations[undecodable] = text[:min(len(text), maxReason)]
	if o.Kind == store.AccessPolicies.Kind() {
		return hollowPolicy(o.ObjectMeta, data)
	}
	less, err := json.Marshal(o)
	return less, err == nil
}

// hollowPolicy encodes an undecodable AccessPolicy with only its metadata and its readable targets.
// Without a previous version, this policy denies all requests to the targets (standIn).
func hollowPolicy(meta metav1.ObjectMeta, data []byte) ([]byte, bool) {
	var o struct {
		Spec any `json:"spec"`
	}
	if json.Unmarshal(data, &o) != nil {
		return nil, false
	}
	p := v1alpha1.ClosedAccessPolicy(meta.Namespace, meta.Name, o.Spec, 0)
	p.ObjectMeta = meta
	less, err := json.Marshal(p)
	return less, err == nil
}

// standIn makes an AccessPolicy that could not be decoded deny all requests to its targets.
func standIn(obj store.Object) {
	if p, ok := obj.(*v1alpha1.AccessPolicy); ok {
		p.Spec.Closed = v1alpha1.ClosedUndecodable
	}
}

func closedBefore(obj store.Object) bool {
	p, ok := obj.(*v1alpha1.AccessPolicy)
	return ok && p.Spec.Closed != 0
}

// undecodables records why objects could not be decoded. It is safe for concurrent use.
type undecodables struct {
	mu      sync.Mutex
	reasons map[report.Ref]string
}

// note records whether obj could be decoded (failed). obj is nil for a deleted object. changed
// means that this result, or its reason, is new.
func (u *undecodables) note(ref report.Ref, obj store.Object) (failed, changed bool) {
	reason := ""
	if obj != nil {
		a := obj.GetAnnotations()
		if reason, failed = a[undecodable]; failed {
			delete(a, undecodable)
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if old, before := u.reasons[ref]; before == failed && old == reason {
		return failed, false
	}
	if failed {
		u.reasons[ref] = reason
	} else {
		delete(u.reasons, ref)
	}
	return failed, true
}

func (u *undecodables) reports() (out []report.Report) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i, ref := range slices.SortedFunc(maps.Keys(u.reasons), report.Ref.Compare) {
		effect := "has no effect"
		switch ref.Kind {
		case store.APIKeys.Kind(): // such a kind is closing (kinds.go)
			effect = "lets nothing in"
		case store.AccessPolicies.Kind(): // standIn makes the policy closed
			effect = "a version before stays in use, or else its targets are closed"
		}
		problem := fmt.Sprintf("the newest version of %s cannot be decoded, and %s: %s", ref, effect, u.reasons[ref])
		if i == mostUndecodable {
			problem = fmt.Sprintf("%d objects more cannot be decoded", len(u.reasons)-i)
		}
		out = append(out, report.Report{Owner: ref, Findings: []report.Finding{
			{Severity: report.Error, Owner: ref, Problem: problem, Fix: "correct the field"},
		}})
		if i == mostUndecodable {
			break
		}
	}
	return out
}
