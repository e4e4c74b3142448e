package inference

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/inferenceapi/llmd"
	"github.com/penstock-project/penstock/translator/model"
)

// Models returns the effects of a pool's InferenceModels, InferenceModelRewrites and
// InferenceObjectives, or nil.
func Models(r store.Reader, id objectid.Target) *model.Models {
	if id.Imported() { // the exporting cluster's picker applies its own objects
		return nil
	}
	target := store.TargetKey("InferencePool", id.Namespace, id.Name)
	byName := map[string]*claims{}
	claimed := func(name string) *claims {
		c := byName[name]
		if c == nil {
			c = &claims{name: name}
			byName[name] = c
		}
		return c
	}
	for _, m := range store.InferenceModels.By(r, store.ByTarget, target) {
		c := claimed(m.Spec.ModelName)
		c.models = append(c.models, m)
	}
	for _, rw := range store.InferenceModelRewrites.By(r, store.ByTarget, target) {
		for _, name := range rewritten(rw) {
			c := claimed(name)
			c.rewrites = append(c.rewrites, rw)
		}
	}
	out := &model.Models{}
	for name, c := range byName {
		rule, ok := c.rule()
		switch {
		case !ok:
		case name == "":
			out.Other = &rule
		default:
			if out.Named == nil {
				out.Named = make(map[string]model.ModelRule, len(byName))
			}
			out.Named[name] = rule
		}
	}
	for _, o := range store.InferenceObjectives.By(r, store.ByTarget, target) {
		if problem, _ := invalidPoolRef(o.Spec.PoolRef.Group, o.Spec.PoolRef.Kind); problem != "" {
			continue
		}
		if out.Objectives == nil {
			out.Objectives = map[string]int32{}
		}
		out.Objectives[o.Name] = or(o.Spec.Priority, 0)
	}
	if out.Named == nil && out.Other == nil && out.Objectives == nil {
		return nil
	}
	return out
}

func modelUse(r store.Reader, namespace, pool string) (reads, rewrites bool) {
	target := store.TargetKey("InferencePool", namespace, pool)
	for _, m := range store.InferenceModels.By(r, store.ByTarget, target) {
		if problem, _, _ := invalidModel(m); problem == "" {
			reads, rewrites = true, rewrites || len(m.Spec.TargetModels) > 0
		}
	}
	for _, rw := range store.InferenceModelRewrites.By(r, store.ByTarget, target) {
		if problem, _, _ := invalidRewrite(rw); problem == "" && len(rw.Spec.Rules) > 0 {
			reads, rewrites = true, true
		}
	}
	return reads, rewrites
}

// claims has the objects that claim a model name; "" means all models. The lists may have
// duplicates.
type claims struct {
	name     string
	models   []*inferenceapi.InferenceModel
	rewrites []*llmd.InferenceModelRewrite
}

func claimsOn(r store.Reader, namespace, pool, name string) *claims {
	key := store.ModelKey(namespace, pool, name)
	return &claims{name, store.InferenceModels.By(r, store.ByModel, key),
		store.InferenceModelRewrites.By(r, store.ByModel, key)}
}

// model returns the oldest valid InferenceModel and, of equally old ones, the first by name.
func (c *claims) model() *inferenceapi.InferenceModel {
	return oldest(c.models, func(m *inferenceapi.InferenceModel) bool {
		problem, _, _ := invalidModel(m)
		return problem == ""
	})
}

func (c *claims) rewrite() (*llmd.InferenceModelRewrite, int) {
	rw := oldest(c.rewrites, func(rw *llmd.InferenceModelRewrite) bool {
		problem, _, _ := invalidRewrite(rw)
		return problem == ""
	})
	if rw == nil {
		return nil, -1
	}
	return rw,
		slices.IndexFunc(rw.Spec.Rules, func(rule llmd.InferenceModelRewriteRule) bool {
			return matches(&rule, c.name)
		})
}

// targets returns the object that sets the target models: the older of the two kinds, but not an
// InferenceModel without targetModels. At most one result is set.
func (c *claims) targets() (*inferenceapi.InferenceModel, *llmd.InferenceModelRewrite, int) {
	m := c.model()
	rw, rule := c.rewrite()
	if m != nil && len(m.Spec.TargetModels) > 0 && (rw == nil || !older(rw, m)) {
		return m, nil, -1
	}
	return nil, rw, rule
}

func (c *claims) rule() (out model.ModelRule, ok bool) {
	if m := c.model(); m != nil {
		ok, out.Criticality = true, m.Spec.Criticality
	}
	m, rw, rule := c.targets()
	switch {
	case m != nil:
		for _, t := range m.Spec.TargetModels {
			out.Targets = append(out.Targets, model.ModelTarget{Name: t.Name, Weight: or(t.Weight, 1)})
		}
	case rw != nil:
		ok = true
		for _, t := range rw.Spec.Rules[rule].Targets {
			out.Targets = append(out.Targets, model.ModelTarget{Name: t.ModelRewrite, Weight: or(t.Weight, 1)})
		}
	}
	return out, ok
}

func oldest[T interface {
	comparable
	metav1.Object
}](list []T, valid func(T) bool) (out T) {
	var none T
	for _, o := range list {
		if valid(o) && (out == none || older(o, out)) {
			out = o
		}
	}
	return out
}

// older also compares names, because objects from files have no age.
func older(a, b metav1.Object) bool {
	at, bt := a.GetCreationTimestamp(), b.GetCreationTimestamp()
	return cmp.Or(at.Compare(bt.Time), strings.Compare(a.GetName(), b.GetName())) < 0
}

func rewritten(rw *llmd.InferenceModelRewrite) (names []string) {
	for i := range rw.Spec.Rules {
		if len(rw.Spec.Rules[i].Matches) == 0 {
			names = append(names, "")
		}
		for _, m := range rw.Spec.Rules[i].Matches {
			if m.Model != nil {
				names = append(names, m.Model.Value)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func matches(rule *llmd.InferenceModelRewriteRule, name string) bool {
	if name == "" {
		return len(rule.Matches) == 0
	}
	return slices.ContainsFunc(rule.Matches, func(m llmd.Match) bool { return m.Model != nil && m.Model.Value == name })
}

func invalidModel(m *inferenceapi.InferenceModel) (problem, field, fix string) {
	if problem, fix := invalidPoolRef(m.Spec.PoolRef.Group, m.Spec.PoolRef.Kind); problem != "" {
		return problem, "spec.poolRef", fix
	}
	weights := make([]*int32, len(m.Spec.TargetModels))
	for i, t := range m.Spec.TargetModels {
		if weights[i] = t.Weight; t.Name == "" {
			return "it is empty", fmt.Sprintf("spec.targetModels[%d].name", i),
				"write the name of a model that the pool's servers have"
		}
	}
	return invalidWeights(weights, "spec.targetModels")
}

func invalidRewrite(rw *llmd.InferenceModelRewrite) (problem, field, fix string) {
	if rw.Spec.PoolRef == nil {
		return "it is missing", "spec.poolRef", "name an InferencePool of the same namespace"
	}
	if problem, fix := invalidPoolRef(rw.Spec.PoolRef.Group, rw.Spec.PoolRef.Kind); problem != "" {
		return problem, "spec.poolRef", fix
	}
	for i, rule := range rw.Spec.Rules {
		weights, path := make([]*int32, len(rule.Targets)), fmt.Sprintf("spec.rules[%d].targets", i)
		for j, t := range rule.Targets {
			if weights[j] = t.Weight; t.ModelRewrite == "" {
				return "it is empty", fmt.Sprintf("%s[%d].modelRewrite", path, j),
					"write the name of a model that the pool's servers have"
			}
		}
		if problem, field, fix := invalidWeights(weights, path); problem != "" {
			return problem, field, fix
		}
	}
	return "", "", ""
}

func invalidWeights(weights []*int32, path string) (problem, field, fix string) {
	given := 0
	for i, w := range weights {
		if w == nil {
			continue
		}
		given++
		if *w < 1 || *w > maxWeight {
			return fmt.Sprintf("a weight of %d is not 1 to %d", *w, maxWeight), fmt.Sprintf("%s[%d].weight", path, i),
				"write a weight in this range, or remove the target to send it no requests"
		}
	}
	if given != 0 && given != len(weights) {
		return fmt.Sprintf("%d of %d have a weight", given, len(weights)), path, "write a weight for each, or for none"
	}
	return "", "", ""
}

const maxWeight = 1_000_000

func invalidPoolRef(group, kind string) (problem, fix string) {
	fix = "name an InferencePool of the same namespace"
	switch {
	case kind != "" && kind != "InferencePool":
		return "it names a " + kind, fix
	case group != "" && group != store.InferencePools.Group() && group != inferenceapi.Group:
		return "it names an InferencePool of group " + group, "remove group, or write " + store.InferencePools.Group()
	}
	return "", ""
}
