package inference

import (
	"fmt"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/model"
)

func ineffective(p *model.Pool, policy *v1alpha1.PoolPolicy) (out []report.Finding) {
	if policy == nil {
		return nil
	}
	spec := &policy.Spec.Picker
	if p.External {
		out = append(out,
			unused(policy, pickerFields(spec), p.Ref.String()+" has an external picker, which decides alone",
				"remove it, or remove endpointPickerRef from the pool"))
	} else {
		if p.Settings.Criticality != string(v1alpha1.Standard) && !readsCriticality(&p.Settings) {
			out = append(out,
				unused(policy, []string{"spec.picker.criticality"}, "strategy "+p.Settings.Strategy+" does not read it",
					"remove it, set shedAfter or flowControl, or use strategy tree or load"))
		}
		if p.Settings.ShedAfter > 0 && p.Settings.Criticality != string(v1alpha1.Sheddable) &&
			!p.Settings.ReadsModels && !p.Settings.TrustHeaders {
			out = append(out,
				unused(policy, []string{"spec.picker.shedAfter"},
					"requests of criticality "+p.Settings.Criticality+" are not shed",
					"remove it, set criticality: Sheddable, or write an InferenceModel that does"))
		}
		if spec.CHWBL != nil && p.Settings.Strategy != string(v1alpha1.StrategyCHWBL) {
			out = append(out,
				unused(policy, []string{"spec.picker.chwbl"}, "strategy "+p.Settings.Strategy+" does not read it",
					"remove it, or use strategy chwbl"))
		}
		if spec.Session != nil && !readsSessions(&p.Settings) {
			out = append(out,
				unused(policy, []string{"spec.picker.session"}, "strategy "+p.Settings.Strategy+" does not read it",
					"remove it, or use strategy session"))
		}
		if spec.KVEvents != nil && !comparesPrefixes(&p.Settings) {
			why := " reads no prompts"
			if readsBody(&p.Settings) {
				why = " compares no prompts with what servers have cached"
			}
			out = append(out,
				unused(policy, []string{"spec.picker.kvEvents"}, "strategy "+p.Settings.Strategy+why,
					"remove it, or use strategy load with prefix: true"))
		}
		if spec.Metrics != nil && !needsPages(&p.Settings) {
			out = append(out,
				unused(policy, []string{"spec.picker.metrics"},
					"neither strategy "+p.Settings.Strategy+" nor a threshold in spec.picker.full reads metrics",
					"remove it, or use strategy load or tree"))
		}
	}
	if spec.Prefix != nil && *spec.Prefix && !p.External && !p.Settings.Prefix {
		out = append(out,
			unused(policy, []string{"spec.picker.prefix"}, "strategy "+p.Settings.Strategy+" reads no prompts",
				"remove it, or use strategy load"))
	}
	if !p.External && spec.HeadersTimeout == v1alpha1.HeadersTimeoutLearned {
		out = append(out, withoutHeadersTimeout(p, policy))
	}
	var remote []string
	if len(policy.Spec.Remote.PodCIDRs) > 0 {
		remote = append(remote, fieldPodCIDRs)
	}
	if len(policy.Spec.Remote.Addresses) > 0 {
		remote = append(remote, fieldAddresses)
	}
	if policy.Spec.Remote.MaxGateways != nil {
		remote = append(remote, fieldMaxGateways)
	}
	if len(remote) > 0 {
		out = append(out,
			unused(policy, remote, "it is for InferencePoolImports, and "+p.Ref.String()+" is in this cluster",
				"remove it"))
	}
	return drop(out)
}

func withoutHeadersTimeout(p *model.Pool, policy *v1alpha1.PoolPolicy) report.Finding {
	fields := []string{"spec.picker.headersTimeout"}
	switch {
	case p.Settings.Fallbacks == 0:
		return unused(policy, fields, "a pick names no further server, to which a stream could go",
			"remove it, or set fallbacks")
	case !readsBody(&p.Settings):
		why := "strategy " + p.Settings.Strategy + " reads no bodies, which show that an answer is streamed"
		return unused(policy, fields, why, "remove it, or use body: Buffered")
	}
	return report.Finding{}
}

// NotListening returns a finding about a policy whose model servers connect to this process to
// publish KV events. Call it only if this process has no address for these connections.
func NotListening(r store.Reader, key string) (f report.Finding, found bool) {
	policy, ok := store.PoolPolicies.Get(r, key)
	if !ok || policy.Spec.Picker.KVEvents == nil || policy.Spec.Picker.KVEvents.Mode != modeListen {
		return f, false
	}
	return warningOn(store.PoolPolicies.Ref(policy), "spec.picker.kvEvents.mode",
		"model servers cannot connect: penstock was started without --picker-kv-events",
		"start it with --picker-kv-events HOST:PORT, or use mode Dial"), true
}

const modeListen = "Listen"

func readsCriticality(s *model.PickerSettings) bool {
	return s.Strategy == string(v1alpha1.StrategyTree) || s.Strategy == string(v1alpha1.StrategyLoad) ||
		s.ShedAfter > 0 || s.FlowControl.On
}

func readsSessions(s *model.PickerSettings) bool {
	return s.Strategy == string(v1alpha1.StrategySession) || s.Plugins != nil && s.Plugins.Sessions
}

func comparesPrefixes(s *model.PickerSettings) bool {
	compares := s.Strategy == string(v1alpha1.StrategyLoad) || s.Shadow == string(v1alpha1.StrategyLoad)
	if s.Strategy == string(v1alpha1.StrategyPlugins) {
		compares = compares || s.Plugins == nil || s.Plugins.Prompts || s.Plugins.Dynamo != nil
	}
	return compares && readsBody(s)
}

func needsPages(s *model.PickerSettings) bool {
	return readsPages(s) || readsPages(&model.PickerSettings{Strategy: s.Shadow}) || s.FullQueue > 0 ||
		s.FullKVCachePercent > 0 || s.ShedAfter > 0 || s.FlowControl.On
}

func readsPages(s *model.PickerSettings) bool {
	switch v1alpha1.Strategy(s.Strategy) {
	case v1alpha1.StrategyLoad, v1alpha1.StrategyTree:
		return true
	case v1alpha1.StrategyPlugins:
		return s.Plugins == nil || s.Plugins.Pages
	}
	return false
}

func ineffectiveOn(ref report.Ref, members []model.ImportMember, policy *v1alpha1.PoolPolicy,
	whole bool) (out []report.Finding) {
	if policy == nil {
		return nil
	}
	if len(members) == 0 {
		if policy.Spec.Selection != nil || len(policy.Spec.RetryOn) > 0 {
			return nil
		}
		return []report.Finding{
			warningOn(store.PoolPolicies.Ref(policy), "spec",
				fmt.Sprintf("the policy has no effect: each exporting cluster of %s has a PoolPolicy of its own", ref),
				"remove it, or one of theirs"),
		}
	}
	spec := policy.Spec.Picker
	if whole && keepsSessions(policy) {
		spec.Session = nil // has an effect: it applies to the choice of a cluster
	}
	if whole && chooses(policy) {
		spec.ResponseAffinity = false // has an effect: it applies to the choice of a cluster
	}
	out = append(out,
		unused(policy, pickerFields(&spec), "the picker of the exporting cluster decides for "+ref.String(),
			"remove it, and configure the picker there"))
	pickers := slices.ContainsFunc(members, func(m model.ImportMember) bool { return m.Pool != nil })
	if policy.Spec.ExternalPicker != nil && !pickers {
		out = append(out,
			unused(policy, []string{"spec.externalPicker"},
				fmt.Sprintf("no exporting cluster of %s has a picker that is asked: their gateways are", ref),
				"remove it"))
	}
	if whole && chooses(policy) && policy.Spec.Picker.ResponseAffinity && pickers {
		out = append(out, warningOn(store.PoolPolicies.Ref(policy), "spec.picker.responseAffinity",
			fmt.Sprintf("it finds the cluster of a response, and no server there: clusters of %s have pickers that "+
				"are asked (EndpointMode), and these see no responses", ref),
			"export the pool in ParentMode, and write responseAffinity into its PoolPolicy there"))
	}
	parents := slices.ContainsFunc(members, func(m model.ImportMember) bool { return m.MaxGateways > 0 })
	if policy.Spec.Remote.MaxGateways != nil && !parents {
		out = append(out,
			unused(policy, []string{fieldMaxGateways},
				fmt.Sprintf("no exporting cluster of %s is reached through gateways", ref), "remove it"))
	}
	if len(policy.Spec.Remote.PodCIDRs) > 0 && !pickers {
		out = append(out,
			unused(policy, []string{"spec.remote.podCIDRs"},
				fmt.Sprintf("no exporting cluster of %s has pods that are asked: their gateways are", ref),
				"remove it"))
	}
	return drop(out)
}

// pickerFields omits default values, which an API server may have set.
func pickerFields(spec *v1alpha1.PickerSpec) (out []string) {
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"strategy", spec.Strategy != "" && spec.Strategy != v1alpha1.StrategyLoad},
		{"criticality", spec.Criticality != "" && spec.Criticality != v1alpha1.Standard},
		{"trustHeaders", spec.TrustHeaders},
		{"shedAfter", spec.ShedAfter != nil},
		{"flowControl", spec.FlowControl != nil},
		{"shadow", spec.Shadow != ""},
		{"processor", spec.Processor != nil},
		{"chwbl", spec.CHWBL != nil},
		{"session", spec.Session != nil},
		{"plugins", spec.Plugins != nil},
		{"configRef", spec.ConfigRef != nil},
		{"failureMode", spec.FailureMode != ""},
		{"full", spec.Full != nil},
		{"metrics", spec.Metrics != nil},
		{"responseAffinity", spec.ResponseAffinity},
		{"fallbacks", spec.Fallbacks != nil && *spec.Fallbacks != settings(nil).Fallbacks},
		{"headersTimeout", spec.HeadersTimeout != ""},
		{"prefix", spec.Prefix != nil},
		{"kvEvents", spec.KVEvents != nil},
		{"body", spec.Body != ""},
	} {
		if f.set {
			out = append(out, "spec.picker."+f.name)
		}
	}
	return out
}

func unused(policy *v1alpha1.PoolPolicy, fields []string, why, fix string) report.Finding {
	if len(fields) == 0 {
		return report.Finding{}
	}
	problem := "it has no effect: " + why
	if len(fields) > 1 {
		problem = "it and " + strings.Join(fields[1:], ", ") + " have no effect: " + why
		fix = strings.Replace(fix, "remove it", "remove them", 1)
	}
	return warningOn(store.PoolPolicies.Ref(policy), fields[0], problem, fix)
}

func drop(list []report.Finding) (out []report.Finding) {
	for _, f := range list {
		if f != (report.Finding{}) {
			out = append(out, f)
		}
	}
	return out
}
