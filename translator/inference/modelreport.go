package inference

import (
	"fmt"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/inferenceapi/llmd"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/model"
)

// ModelReport reports whether an InferenceModel is in force.
func ModelReport(r store.Reader, tables Tables, key string) (report.Report, bool) {
	m, ok := store.InferenceModels.Get(r, key)
	if !ok {
		return report.Report{}, false
	}
	rep := newModelReport(store.InferenceModels.Ref(m))
	problem, field, fix := invalidModel(m)
	pool := rep.pool(r, tables, m.Spec.PoolRef.Name, problem, field, fix)
	if pool == nil {
		return rep.Report, true
	}
	c := claimsOn(r, m.Namespace, m.Spec.PoolRef.Name, m.Spec.ModelName)
	if other := c.model(); other != m {
		notAccepted(rep, "ModelNameInUse", "spec.modelName",
			fmt.Sprintf("InferenceModel %s, which is older or comes first by name, has model %q of %s", other.Name,
				m.Spec.ModelName, pool.Ref), "write both into one InferenceModel, or remove one")
		return rep.Report, true
	}
	if _, rw, rule := c.targets(); rw != nil && len(m.Spec.TargetModels) > 0 {
		rep.warn("spec.targetModels",
			fmt.Sprintf(
				"they have no effect: rule %d of InferenceModelRewrite %s, which is older or comes first by name, "+
					"rewrites model %q", rule, rw.Name, m.Spec.ModelName), "remove them, or that rule")
	}
	if c := m.Spec.Criticality; c != "" && c != string(v1alpha1.Standard) && !readsCriticality(&pool.Settings) {
		rep.warn("spec.criticality",
			fmt.Sprintf("it has no effect: strategy %s of %s does not read it", pool.Settings.Strategy, pool.Ref),
			"use strategy load or tree in the pool's PoolPolicy, or set shedAfter or flowControl there")
	}
	return rep.Report, true
}

// RewriteReport reports whether an InferenceModelRewrite is in force, and which of its rules are
// overridden.
func RewriteReport(r store.Reader, tables Tables, key string) (report.Report, bool) {
	rw, ok := store.InferenceModelRewrites.Get(r, key)
	if !ok {
		return report.Report{}, false
	}
	rep := newModelReport(store.InferenceModelRewrites.Ref(rw))
	problem, field, fix := invalidRewrite(rw)
	name := ""
	if rw.Spec.PoolRef != nil {
		name = rw.Spec.PoolRef.Name
	}
	pool := rep.pool(r, tables, name, problem, field, fix)
	if pool == nil {
		return rep.Report, true
	}
	effective, shadowed := 0, 0
	check := func(i int, field, model string) {
		by := shadow(claimsOn(r, rw.Namespace, name, model), rw, i)
		if by == "" {
			effective++
			return
		}
		what := fmt.Sprintf("model %q", model)
		if model == "" {
			what = "all models without a rule of their own"
		}
		if shadowed++; shadowed <= mostErrors {
			rep.warn(field, "it has no effect: "+by+" rewrites "+what, "remove one of the two")
		}
	}
	for i, rule := range rw.Spec.Rules {
		if len(rule.Matches) == 0 {
			check(i, fmt.Sprintf("spec.rules[%d]", i), "")
		}
		for j, m := range rule.Matches {
			if m.Model != nil {
				check(i, fmt.Sprintf("spec.rules[%d].matches[%d]", i, j), m.Model.Value)
			}
		}
		if len(rule.Targets) == 0 {
			rep.Findings = append(rep.Findings, infoOn(rep.Owner, fmt.Sprintf("spec.rules[%d]", i),
				"it has no targets: the requests that it matches keep their model", ""))
		}
	}
	if more := shadowed - mostErrors; more > 0 {
		rep.warn("spec.rules", fmt.Sprintf("%d more matches have no effect", more),
			"see the other findings of this object")
	}
	switch {
	case shadowed > 0 && effective == 0:
		rep.Conditions[0] = report.Condition{Type: "Accepted", Status: report.False, Reason: "Conflicted",
			Message: rep.Findings[0].Field + ": " + rep.Findings[0].Problem}
	case len(rw.Spec.Rules) == 0:
		rep.warn("spec.rules", "it is empty: the object has no effect", "write a rule, or remove the object")
	}
	return rep.Report, true
}

func shadow(c *claims, rw *llmd.InferenceModelRewrite, i int) string {
	switch m, other, rule := c.targets(); {
	case m != nil:
		return "InferenceModel " + m.Name + ", which is older or comes first by name,"
	case other != rw:
		return fmt.Sprintf("rule %d of InferenceModelRewrite %s, which is older or comes first by name,", rule,
			other.Name)
	case rule != i:
		return fmt.Sprintf("rule %d", rule)
	}
	return ""
}

// ObjectiveReport reports whether an InferenceObjective is in force.
func ObjectiveReport(r store.Reader, tables Tables, key string) (report.Report, bool) {
	o, ok := store.InferenceObjectives.Get(r, key)
	if !ok {
		return report.Report{}, false
	}
	rep := newModelReport(store.InferenceObjectives.Ref(o))
	problem, fix := invalidPoolRef(o.Spec.PoolRef.Group, o.Spec.PoolRef.Kind)
	if pool := rep.pool(r, tables, o.Spec.PoolRef.Name, problem, "spec.poolRef", fix); pool != nil &&
		!pool.Settings.TrustHeaders {
		rep.Findings = append(rep.Findings, infoOn(rep.Owner, "",
			"requests cannot name it: the header that does is a client's, and counts only if the pool trusts it",
			"set spec.picker.trustHeaders: true in a PoolPolicy of "+pool.Ref.String()))
	}
	return rep.Report, true
}

type modelReport struct{ report.Report }

func newModelReport(owner report.Ref) *modelReport {
	return &modelReport{
		report.Report{
			Owner: owner, Conditions: []report.Condition{{Type: "Accepted", Status: report.True, Reason: "Accepted"}},
		},
	}
}

func (rep *modelReport) pool(r store.Reader, tables Tables, name, problem, field, fix string) *model.Pool {
	if problem != "" {
		notAccepted(rep, "Invalid", field, problem, fix)
		return nil
	}
	p, ok := tables.Pool(r, objectid.Join(rep.Owner.Namespace, name))
	switch {
	case !ok && elsewhere(r, rep.Owner.Namespace, name):
		rep.Conditions = nil
		return nil
	case !ok:
		notAccepted(rep, "PoolNotFound", "spec.poolRef.name",
			noneOf(r, store.InferencePools, rep.Owner.Namespace, name), "name an InferencePool of the same namespace")
		return nil
	case p.External: // the external picker's controller may write the conditions
		rep.Conditions = nil
		rep.Findings = append(rep.Findings, infoOn(rep.Owner, "spec.poolRef",
			fmt.Sprintf("it has no effect on what Penstock does: %s has an external picker, which decides alone",
				p.Ref), "remove endpointPickerRef from the pool to have Penstock's own picker"))
		return nil
	}
	return p
}

// elsewhere reports whether the store has a pool that this process does not serve: a stand-alone
// picker may serve only one pool.
func elsewhere(r store.Reader, namespace, name string) bool {
	_, there := store.InferencePools.Get(r, objectid.Join(namespace, name))
	return there
}

func notAccepted(rep *modelReport, reason, field, problem, fix string) {
	rep.Conditions = []report.Condition{
		{Type: "Accepted", Status: report.False, Reason: reason, Message: field + ": " + problem + "; " + fix},
	}
	rep.Findings = append(rep.Findings, errorOn(rep.Owner, field, problem, fix))
}

func (rep *modelReport) warn(field, problem, fix string) {
	rep.Findings = append(rep.Findings, warningOn(rep.Owner, field, problem, fix))
}
