package file

import (
	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/discovery/store"
	"github.com/penstock-project/penstock/manifests/endpointpicker"
)

func endpointPickerConfigKind() *kind {
	return &kind{
		table: store.EndpointPickerConfigs,
		versions: []version{
			{endpointpicker.Group + "/" + endpointpicker.Version, nil},
			{endpointpicker.FormerGroup + "/" + endpointpicker.Version, func(*draft) {}},
		},
		check: func(o store.Object) []mistake {
			_, problems := endpointpicker.Resolve(o.(*endpointpicker.EndpointPickerConfig))
			return pluginMistakes("", problems)
		},
	}
}

func pluginMistakes(field string, problems []endpointpicker.Problem) (out []mistake) {
	for _, p := range problems {
		m := mistake{severity: report.Error, field: field + p.Field, problem: p.Problem, fix: p.Fix}
		if p.Warning {
			m.severity = report.Warning
		}
		out = append(out, m)
	}
	return out
}
