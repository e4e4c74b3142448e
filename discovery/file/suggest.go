package file

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/discovery/status/report"
)

func (s *schema) unknownField(path string) mistake {
	m := mistake{severity: report.Error, field: path, problem: "is not a known field"}
	segs := segments(path)
	parent := s.node(segs[:len(segs)-1])
	if parent == nil {
		return m
	}
	names := slices.Sorted(maps.Keys(parent.Properties))
	if near := report.Nearest(segs[len(segs)-1], names); near != "" {
		m.fix = "did you mean " + near + "?"
	} else if len(names) > 0 {
		m.fix = "remove it; the fields here are " + strings.Join(names, ", ")
	}
	return m
}

func suggest(bad string, allowed []string) string {
	if near := report.Nearest(bad, allowed); near != "" {
		return "write " + near
	}
	return "write " + oneOfWords(allowed)
}

func oneOfWords(list []string) string {
	if len(list) == 1 {
		return list[0]
	}
	return strings.Join(list[:len(list)-1], ", ") + " or " + list[len(list)-1]
}

func (c *catalog) unreadKind(apiVersion, kindName string) *mistake {
	names := slices.Sorted(maps.Keys(c.byName))
	near := report.Nearest(kindName, names)
	if near != "" && near != kindName && !slices.Contains(laterKinds, kindName) &&
		(slices.Contains(laterGroups, groupOf(apiVersion)) || groupOf(apiVersion) == c.byName[near][0].table.Group()) {
		return &mistake{severity: report.Error, field: "kind", problem: "is unknown: " + kindName,
			fix: "did you mean " + near + "?"}
	}
	if slices.Contains(laterGroups, groupOf(apiVersion)) {
		return &mistake{
			severity: report.Warning,
			problem:  fmt.Sprintf("has no effect: kind %s of %s is not supported yet", kindName, apiVersion),
		}
	}
	return &mistake{
		severity: report.Info,
		problem:  fmt.Sprintf("is ignored: Penstock does not read kind %s of %s", kindName, apiVersion),
	}
}

func likelyMeant(apiVersion string, k *kind) bool {
	group := groupOf(apiVersion)
	if group == k.table.Group() || slices.Contains(laterGroups, group) {
		return true
	}
	return slices.ContainsFunc(k.versions, func(v version) bool {
		return group == groupOf(v.apiVersion) || group != "" && report.Distance(group, groupOf(v.apiVersion)) <= 3
	})
}

func versionList(k *kind) string {
	var names []string
	for _, v := range k.versions {
		names = append(names, v.apiVersion)
	}
	return oneOfWords(names)
}
