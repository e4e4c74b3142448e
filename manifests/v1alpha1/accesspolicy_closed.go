package v1alpha1

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// targetKinds are the values of AccessTarget.Kind.
var targetKinds = []string{"Gateway", "HTTPRoute", "GRPCRoute", "InferencePool"}

// AccessClosure is why a policy lets nothing in; 0 in policies as they are written.
type AccessClosure int

// The reasons of closed policies.
const (
	ClosedInvalid AccessClosure = iota + 1
	ClosedSecond
	ClosedUndecodable
	ClosedDeployment
)

// String completes the sentence "it lets nothing in, because ...".
func (c AccessClosure) String() string {
	switch c {
	case ClosedInvalid:
		return "it is invalid and has no valid version before"
	case ClosedSecond:
		return "it is defined twice and only the first definition is in use"
	case ClosedDeployment:
		return "a document of its ModelDeployment has spec.access and is not in use"
	}
	return "it cannot be decoded and no version before can, either"
}

// ClosedAccessPolicy returns a policy that lets nothing in. It replaces a policy that is invalid
// and has no valid version, because the targets would be open without it. Its targets are all
// objects that spec, decoded from JSON, may mean: a target without a readable name is every object
// of the kind in the namespace, and its Name is "". The parameter why is AccessPolicySpec.Closed.
func ClosedAccessPolicy(namespace, name string, spec any, why AccessClosure) *AccessPolicy {
	return &AccessPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: Group + "/" + Version, Kind: "AccessPolicy"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       AccessPolicySpec{TargetRefs: readableTargets(spec), Closed: why},
	}
}

func readableTargets(spec any) (targets []AccessTarget) {
	fields, _ := spec.(map[string]any)
	list, isList := fields["targetRefs"].([]any)
	if !isList {
		for _, field := range []string{"targetRefs", "targetRef"} { // one target, written without a list
			if one, ok := fields[field].(map[string]any); ok {
				list = append(list, one)
			}
		}
	}
	for _, item := range list {
		for _, t := range possibleTargets(item) {
			if !slices.Contains(targets, t) {
				targets = append(targets, t)
			}
		}
	}
	if len(targets) == 0 {
		return possibleTargets(nil)
	}
	return targets
}

func possibleTargets(item any) (targets []AccessTarget) {
	fields, _ := item.(map[string]any)
	name, _ := fields["name"].(string)
	section, _ := fields["sectionName"].(string)
	kind, _ := fields["kind"].(string)
	kinds := []string{kind}
	if !slices.Contains(targetKinds, kind) {
		kinds = targetKinds
	}
	if kind != "Gateway" && kind != "HTTPRoute" && kind != "GRPCRoute" || name == "" {
		section = "" // the whole object
	}
	for _, kind := range kinds {
		targets = append(targets, AccessTarget{Kind: kind, Name: name, SectionName: section})
	}
	return targets
}
