package export

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	inferencev1 "sigs.k8s.io/gateway-api-inference-extension/api/v1"
	upstream "sigs.k8s.io/gateway-api-inference-extension/apix/v1alpha1"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/multicluster/registry"
)

// These are annotations of an InferencePool. The first two are from the multi-cluster proposal
// ("Export Annotations").
const (
	// ModeAnnotation has the value EndpointMode (the default) or ParentMode.
	ModeAnnotation = inferenceapi.ExportModeAnnotation
	// ToAnnotation lists the members that may import the pool, comma-separated; default: all
	// members.
	ToAnnotation = "penstock.dev/export-to"
	// WeightAnnotation is this cluster's share among the exporters of a pool: 0 to 1,000,000,
	// default 1.
	WeightAnnotation = "penstock.dev/export-weight"
)

// Annotation requests the export of a pool. Its only valid value is ClusterSet.
var Annotation = upstream.ExportAnnotationKey

const hub = v1alpha1.Group + "/multicluster-hub"

var known = []string{Annotation, ModeAnnotation, ToAnnotation, WeightAnnotation}

// Wish is the export that a pool's valid annotations request.
type Wish struct {
	mode   inferenceapi.RoutingMode
	to     []string
	weight *int32
}

// problem is a mistake in an annotation. Unless it is harmless, the pool is not exported.
type problem struct {
	annotation, text, fix string
	harmless              bool
}

func parse(annotations map[string]string, members []string) (w Wish, asked bool, problems []problem) {
	add := func(annotation, fix, format string, args ...any) {
		problems = append(problems, problem{annotation: annotation, text: fmt.Sprintf(format, args...), fix: fix})
	}
	value, asked := annotations[Annotation]
	if a := unknown(annotations); a != "" {
		problems = append(problems, problem{a, "a pool has no annotation of this name",
			"write one of " + strings.Join(known, ", "), true})
	}
	if !asked {
		for _, a := range []string{ModeAnnotation, ToAnnotation, WeightAnnotation} {
			if _, ok := annotations[a]; ok {
				add(a, fmt.Sprintf("add %s: %s, or remove it", Annotation, upstream.ExportAnnotationVal),
					"it has no effect without %s", Annotation)
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
		add(ModeAnnotation, fmt.Sprintf("write %s or %s", inferenceapi.EndpointMode, inferenceapi.ParentMode),
			"%.100q is not supported", string(mode))
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
				add(ToAnnotation, "name members of the ClusterSet, separated by commas",
					"%.100q is no member of the ClusterSet", name)
			}
		}
		if len(w.to) == 0 && len(problems) == first {
			add(ToAnnotation,
				"name members of the ClusterSet, separated by commas, or remove it: all of them may import "+
					"the pool then", "it names no member")
		}
		// Invalid names are harmless if at least one name is valid.
		for i := range problems[first:] {
			problems[first+i].harmless = len(w.to) > 0
		}
	}
	if text, ok := annotations[WeightAnnotation]; ok {
		n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 32)
		if err != nil || n < 0 || n > registry.MaxWeight {
			add(WeightAnnotation, fmt.Sprintf("write a number from 0 to %d", registry.MaxWeight), "%.40q is no weight",
				text)
		} else {
			weight := int32(n)
			w.weight = &weight
		}
	}
	return w, true, problems
}

func findings(owner report.Ref, problems []problem) (all []report.Finding) {
	for _, p := range problems {
		severity := report.Error
		if p.harmless {
			severity = report.Warning
		}
		all = append(all, found(owner, severity, p.annotation, p.text, p.fix))
	}
	return all
}

func found(owner report.Ref, severity report.Severity, annotation, problem, fix string) report.Finding {
	return report.Finding{Severity: severity, Owner: owner, Field: "metadata.annotations[" + annotation + "]",
		Problem: problem, Fix: fix}
}

// Check returns the mistakes in a pool's export annotations. set means that this cluster has a
// ClusterSet, with the names of the other members.
func Check(pool *inferencev1.InferencePool, set bool, members []string) []report.Finding {
	owner := store.InferencePools.Ref(pool)
	_, asked, problems := parse(pool.Annotations, members)
	if set {
		return findings(owner, problems)
	}
	problems = slices.DeleteFunc(problems, func(p problem) bool { return p.annotation == ToAnnotation && asked })
	all := findings(owner, problems)
	hubs := func(p inferencev1.ParentStatus) bool { return p.ControllerName == hub }
	if asked && !slices.ContainsFunc(pool.Status.Parents, hubs) {
		all = append(all, found(owner, report.Warning, Annotation,
			"no other cluster imports the pool: this cluster has no ClusterSet",
			"join the clusters with `penstock clusters join`, have `penstock hub` read this one, or remove "+
				"the annotation"))
	}
	return all
}

// Annotated reports whether a pool has an export annotation, even a misspelled one.
func Annotated(pool *inferencev1.InferencePool) bool {
	for _, a := range known {
		if _, ok := pool.Annotations[a]; ok {
			return true
		}
	}
	return unknown(pool.Annotations) != ""
}

var meant = []string{"penstock.dev/", Annotation, "inference.networking.k8s.io/export"}

func unknown(annotations map[string]string) (first string) {
	for a := range annotations {
		hasPrefix := func(prefix string) bool { return strings.HasPrefix(a, prefix) }
		if slices.ContainsFunc(meant, hasPrefix) && !slices.Contains(known, a) && (first == "" || a < first) {
			first = a
		}
	}
	return first
}
