package inference

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/penstock-project/penstock/discovery/objectid"
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
	"github.com/penstock-project/penstock/translator/gatewayapi"
	"github.com/penstock-project/penstock/translator/model"
)

const (
	fieldPlugins   = "spec.picker.plugins"
	fieldConfigRef = "spec.picker.configRef"
)

// plugins reads the policy's plugin configuration. If it is invalid, p.Settings.Plugins is nil, and
// the picker keeps the last valid profile.
func plugins(r store.Reader, p *model.Pool, policy *v1alpha1.PoolPolicy) {
	if p.Settings.Strategy != string(v1alpha1.StrategyPlugins) {
		return
	}
	spec, found := &policy.Spec.Picker, problemsOf(store.PoolPolicies.Ref(policy), &p.Findings)
	switch {
	case spec.Plugins != nil:
		profile, problems := endpointpicker.Inline(spec.Plugins)
		p.Settings.Plugins = profile
		found(fieldPlugins, "", problems...)
	case spec.ConfigRef != nil: // validation requires configRef or plugins
		p.Settings.Plugins = document(r, policy, found)
	}
	if profile := p.Settings.Plugins; profile != nil && profile.Clusters != nil {
		found(fieldConfigRef, "", endpointpicker.Problem{
			Problem: "its plugins choose among clusters, and the policy is for a pool",
			Fix:     "write a PoolPolicy whose targetRef is an InferencePoolImport",
		})
		p.Settings.Plugins = nil
	}
	profile := p.Settings.Plugins
	if profile == nil {
		return
	}
	if !profile.Prompts {
		p.Settings.Prefix = false
	}
	p.Settings.MetricsPath = cmp.Or(p.Settings.MetricsPath, profile.Source.Path)
	field := fieldPlugins
	if spec.ConfigRef != nil {
		field = fieldConfigRef
	}
	if f := profile.Flow; f != nil && spec.FlowControl == nil {
		p.Settings.FlowControl = model.FlowControl{On: true, Deadlines: f.Deadlines,
			Requests: int32(min(f.Requests, math.MaxInt32)), Bytes: f.Bytes,
			TTL: f.TTL, EmptyTTL: f.EmptyTTL, Queue: f.Queue, KVCache: f.KV, InFlight: f.InFlight}
		for _, b := range f.TTLs {
			p.Settings.FlowControl.TTLs = append(p.Settings.FlowControl.TTLs, model.BandTTL(b))
		}
	} else if f != nil {
		found(field, "",
			endpointpicker.Problem{
				Warning: true, Problem: "the document's flowControl has no effect: spec.picker.flowControl is in force",
				Fix: "keep one of them",
			})
	}
	if profile.Precise && spec.KVEvents == nil {
		found(field, "",
			endpointpicker.Problem{
				Warning: true, Problem: endpointpicker.PrecisePrefixProducer +
					" has no KV events: prefixes come from picks", Fix: "set spec.picker.kvEvents",
			})
	}
	found(field, "", stageProblems(p, profile)...)
	for _, s := range profile.External {
		if problem, fix := servicePort(r, policy.Namespace, s.Service, s.Port); problem != "" {
			found(field, "", endpointpicker.Problem{
				Problem: scorerProblem + problem, Fix: fmt.Sprintf(fix, "the scorer"),
			})
		}
	}
}

func document(r store.Reader, policy *v1alpha1.PoolPolicy,
	found func(field, where string, problems ...endpointpicker.Problem)) *endpointpicker.Profile {
	ref := policy.Spec.Picker.ConfigRef
	if ref.Kind == endpointpicker.Kind {
		key := objectid.Join(policy.Namespace, ref.Name)
		if ref.Name == store.OwnPickerConfig {
			key = ref.Name
		}
		config := store.RefOf(store.EndpointPickerConfigs, objectid.Join(policy.Namespace, ref.Name))
		doc, ok := store.EndpointPickerConfigs.Get(r, key)
		if !ok {
			found(fieldConfigRef+".name", "",
				endpointpicker.Problem{Problem: gatewayapi.Missing(r, config, config,
					"there is no valid "+config.String()),
					Fix: "write it into a file of the folder; on Kubernetes put the document into a ConfigMap"})
			return nil
		}
		profile, _ := endpointpicker.Resolve(doc) // discovery/file reports its problems
		return profile
	}
	text, where, problem := configMapText(r, policy.Namespace, ref)
	if problem != (endpointpicker.Problem{}) {
		found(fieldConfigRef, "", problem)
		return nil
	}
	profile, problems := endpointpicker.Parse(text)
	found(fieldConfigRef, where, problems...)
	return profile
}

func problemsOf(owner report.Ref, to *[]report.Finding) func(field, where string, problems ...endpointpicker.Problem) {
	return func(field, where string, problems ...endpointpicker.Problem) {
		for i, problem := range problems {
			f := errorOn(owner, field, problem.Problem, problem.Fix)
			switch {
			case problem.Warning:
				f.Severity = report.Warning
			case i >= mostErrors:
				continue
			}
			if where != "" {
				f.Problem = where + ": " + strings.TrimPrefix(problem.Field+": "+problem.Problem, ": ")
			} else if problem.Field != "" {
				f.Field += "." + problem.Field
			}
			*to = append(*to, f)
		}
	}
}

func stageProblems(p *model.Pool, profile *endpointpicker.Profile) (out []endpointpicker.Problem) {
	if profile.Dynamo != nil {
		p.Settings.Prefix = true // reads bodies, which also name workers
	}
	d := profile.Disagg
	if d == nil {
		return nil
	}
	if d.PrimaryPort != 0 && len(p.Ports) > 0 && !slices.Contains(p.Ports, d.PrimaryPort) {
		out = append(out,
			endpointpicker.Problem{Warning: true,
				Problem: fmt.Sprintf(
					"primaryPort %d of %s is not one of the pool's targetPorts: where no server has it, requests go "+
						"to the ports of ranks", d.PrimaryPort, d.HandlerType),
				Fix: "write the port that passes requests on to the ranks"})
	}
	for _, s := range []*endpointpicker.Stage{d.Prefill, d.Encode} {
		if s != nil && !s.Decider.Always && !p.Settings.Prefix {
			out = append(out, endpointpicker.Problem{
				Warning: true, Problem: "a decider of " + d.HandlerType +
					" reads prompts, which spec.picker.prefix turns off: it goes by content-length alone",
				Fix: "remove prefix: false",
			})
			break
		}
	}
	return out
}

const scorerProblem = endpointpicker.ExternalScorer + ": "

func servicePort(r store.Reader, namespace, name string, port int32) (problem, fix string) {
	svc, ok := store.Services.Get(r, objectid.Join(namespace, name))
	switch {
	case !ok:
		return noService(r, namespace, name), "create it, or remove %s"
	case !slices.ContainsFunc(svc.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port }):
		return fmt.Sprintf("Service %s/%s has no port %d", namespace, name, port),
			"name one of the Service's ports, or remove %s"
	}
	return "", ""
}

func noService(r store.Reader, namespace, name string) string {
	return noneOf(r, store.Services, namespace, name)
}

func noneOf(r store.Reader, kind store.Kind, namespace, name string) string {
	ref := store.RefOf(kind, objectid.Join(namespace, name))
	return gatewayapi.Missing(r, ref, ref, "there is no "+ref.String())
}

func invalidScorer(f report.Finding) bool {
	return f.Severity == report.Error && strings.HasPrefix(f.Problem, scorerProblem)
}

func configMapText(r store.Reader, namespace string, ref *v1alpha1.ConfigRef) (text, where string,
	problem endpointpicker.Problem) {
	m, ok := store.ConfigMaps.Get(r, objectid.Join(namespace, ref.Name))
	if !ok {
		return "", "",
			endpointpicker.Problem{Field: "name", Problem: noneOf(r, store.ConfigMaps, namespace, ref.Name),
				Fix: "create it in the policy's namespace, or name another one"}
	}
	key, keys := ref.Key, slices.Sorted(maps.Keys(m.Data))
	if key == "" && len(keys) == 1 {
		key = keys[0]
	}
	if text, ok = m.Data[key]; !ok {
		p := endpointpicker.Problem{
			Field: "key", Problem: fmt.Sprintf("ConfigMap %s/%s has no key %q", namespace, ref.Name, key),
			Fix: "write the key that has the document",
		}
		if key == "" {
			p.Problem = fmt.Sprintf("ConfigMap %s/%s has %d keys, and none is named", namespace, ref.Name, len(keys))
		}
		if len(keys) > 0 {
			p.Fix += ", one of " + strings.Join(keys[:min(len(keys), mostErrors)], ", ")
		}
		return "", "", p
	}
	return text, fmt.Sprintf("ConfigMap %s/%s, key %s", namespace, ref.Name, key), endpointpicker.Problem{}
}

func pluginsCondition(findings []report.Finding) (report.Condition, bool) {
	invalid := slices.DeleteFunc(slices.Clone(findings),
		func(f report.Finding) bool { return !strings.HasPrefix(f.Field, fieldPlugins) || invalidScorer(f) })
	c := resolved("InvalidPlugins", invalid)
	c.Type = "Accepted"
	return c, c.Status == report.False
}

func invalidConfigRef(findings []report.Finding) bool {
	return slices.ContainsFunc(findings, func(f report.Finding) bool {
		return f.Severity == report.Error && strings.HasPrefix(f.Field, fieldConfigRef) && !invalidScorer(f)
	})
}

// cleartextPages warns of a document's TLS for metrics pages. It has no effect, because pages are
// read over the transport that Envoys use for requests.
func cleartextPages(p *model.Pool, policy *v1alpha1.PoolPolicy) []report.Finding {
	if p.Settings.Plugins == nil || !p.Settings.Plugins.Source.TLS {
		return nil
	}
	return []report.Finding{
		warningOn(store.PoolPolicies.Ref(policy), fieldConfigRef,
			"the scheme https of the document has no effect: pages are read as requests are sent",
			"write a BackendTLSPolicy for the InferencePool, and remove the scheme"),
	}
}
