package export

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	upstream "sigs.k8s.io/gateway-api-inference-extension/apix/v1alpha1"

	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// The annotations of an InferencePool. The first two are the multi-cluster proposal's ("Export Annotations").
const (
	// ModeAnnotation has EndpointMode (the default) or ParentMode.
	ModeAnnotation = inferenceapi.ExportModeAnnotation
	// ToAnnotation has the members that may import the pool, comma-separated; without it, all may.
	ToAnnotation = "penstock.dev/export-to"
	// WeightAnnotation is the share of this cluster among the exporters of a pool: 0 to 1,000,000, 1 without it.
	WeightAnnotation = "penstock.dev/export-weight"
)

// Annotation asks for the export of a pool; its one value is ClusterSet.
var Annotation = upstream.ExportAnnotationKey

// known are the annotations above.
var known = []string{Annotation, ModeAnnotation, ToAnnotation, WeightAnnotation}

// Wish is what the valid annotations of a pool ask for.
type Wish struct {
	mode   inferenceapi.RoutingMode
	to     []string // nil: all members
	weight *int32
}

// problem is a mistake in an annotation. With others the pool is not exported.
type problem struct {
	annotation, text, fix string
	harmless              bool
}

// parse reads the annotations of a pool. asked is false if they ask for no export. A pool with a problem is not exported.
func parse(annotations map[string]string, members []string) (w Wish, asked bool, problems []problem) {
	add := func(annotation, fix, format string, args ...any) {
		problems = append(problems, problem{annotation: annotation, text: fmt.Sprintf(format, args...), fix: fix})
	}
	value, asked := annotations[Annotation]
	if a := unknown(annotations); a != "" {
		problems = append(problems, problem{annotation: a, text: "a pool has no annotation of this name", fix: "write one of " + strings.Join(known, ", "), harmless: true})
	}
	if !asked {
		for _, a := range []string{ModeAnnotation, ToAnnotation, WeightAnnotation} {
			if _, ok := annotations[a]; ok {
				add(a, fmt.Sprintf("add %s: %s, or remove it", Annotation, upstream.ExportAnnotationVal), "it has no effect without %s", Annotation)
			}
		}
		return w, false, problems
	}
	if value != upstream.ExportAnnotationVal {
		add(Annotation, "write "+upstream.ExportAnnotationVal, "%.100q is not supported", value)
	}
	switch mode := inferenceapi.RoutingMode(annotations[ModeAnnotation]); mode {
	case "":
		w.mode = inferenceapi.EndpointMode
	case inferenceapi.EndpointMode, inferenceapi.ParentMode:
		w.mode = mode
	default:
		add(ModeAnnotation, fmt.Sprintf("write %s or %s", inferenceapi.EndpointMode, inferenceapi.ParentMode), "%.100q is not supported", string(mode))
	}
	if text, ok := annotations[ToAnnotation]; ok {
		w.to = []string{}
		first := len(problems)
		for name := range strings.SplitSeq(text, ",") {
			switch name = strings.TrimSpace(name); {
			case name == "" || slices.Contains(w.to, name):
			case slices.Contains(members, name):
				w.to = append(w.to, name)
			default:
				add(ToAnnotation, "name members of the ClusterSet, separated by commas", "%.100q is no member of the ClusterSet", name)
			}
		}
		if len(w.to) == 0 && len(problems) == first {
			add(ToAnnotation, "name members of the ClusterSet, separated by commas, or remove it: all of them may import the pool then", "it names no member")
		}
		for i := range problems[first:] { // one that has left takes nothing from the others
			problems[first+i].harmless = len(w.to) > 0
		}
	}
	if text, ok := annotations[WeightAnnotation]; ok {
		n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32)
		if err != nil || n < 0 || n > registry.MaxWeight {
			add(WeightAnnotation, fmt.Sprintf("write a number from 0 to %d", registry.MaxWeight), "%.40q is no weight", text)
		} else {
			weight := int32(n)
			w.weight = &weight
		}
	}
	return w, true, problems
}

// unknown is the first annotation by name that is meant to be one of an export, and is none; "" if there is no such.
func unknown(annotations map[string]string) (first string) {
	for a := range annotations {
		if (strings.HasPrefix(a, "penstock.dev/") || strings.HasPrefix(a, Annotation)) && !slices.Contains(known, a) && (first == "" || a < first) {
			first = a
		}
	}
	return first
}
