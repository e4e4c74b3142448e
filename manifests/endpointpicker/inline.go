package endpointpicker

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

var choices = map[string]string{"max-score": MaxScorePicker, "weighted-random": WeightedRandomPicker,
	"power-of-two": PowerOfTwoPicker, "random": RandomPicker}

// Inline resolves the plugins of a PoolPolicy. Fields of problems are relative to
// spec.picker.plugins.
func Inline(s *v1alpha1.PluginsSpec) (*Profile, []Problem) {
	r := resolver{instances: map[string]*instance{}, strict: true}
	var list []Plugin
	var fields []string
	p := &Profile{}
	for i, f := range s.Filters {
		list, fields = append(list, Plugin{Type: f.Type, Parameters: f.Parameters}),
			append(fields, fmt.Sprintf("filters[%d]", i))
	}
	for i, sc := range s.Scorers {
		list, fields = append(list, Plugin{Type: sc.Type, Parameters: sc.Parameters}),
			append(fields, fmt.Sprintf("scorers[%d]", i))
	}
	choice := cmp.Or(s.Choice, "max-score")
	list, fields = append(list, Plugin{Type: choices[choice]}), append(fields, "choice")
	for i := range list {
		list[i].Name = list[i].Type
		if n := 1 + count(list[:i], list[i].Type); n > 1 {
			list[i].Name = fmt.Sprintf("%s-%d", list[i].Type, n)
		}
	}
	r.plugins(list)
	r.producers()
	for i := range list {
		in, weight := r.instances[list[i].Name], 1.0
		if k := i - len(s.Filters); k >= 0 && k < len(s.Scorers) && s.Scorers[k].Weight != nil {
			weight = float64(*s.Scorers[k].Weight)
		}
		r.add(p, in, weight, in.field)
	}
	for i := range r.problems {
		for k, field := range fields {
			r.problems[i].Field = replacePrefix(r.problems[i].Field, fmt.Sprintf("plugins[%d]", k), field)
		}
	}
	if Invalid(r.problems) {
		return nil, r.problems
	}
	return p, r.problems
}

func count(list []Plugin, kind string) (n int) {
	for _, p := range list {
		if p.Type == kind {
			n++
		}
	}
	return n
}

func replacePrefix(field, prefix, with string) string {
	if rest, ok := strings.CutPrefix(field, prefix); ok {
		return with + rest
	}
	return field
}
