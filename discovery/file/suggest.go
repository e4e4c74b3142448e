package file

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/discovery/status/report"
)

// unknownField is the mistake of a field that the schema does not have, with the nearest that it has.
func (s *schema) unknownField(path string) mistake {
	m := mistake{severity: report.Error, field: path, problem: "is not a field here"}
	segs := segments(path)
	parent := s.node(segs[:len(segs)-1])
	if parent == nil {
		return m
	}
	names := slices.Sorted(maps.Keys(parent.Properties))
	if near := nearest(segs[len(segs)-1], names); near != "" {
		m.fix = "did you mean " + near + "?"
	} else if len(names) > 0 {
		m.fix = "remove it; the fields here are " + strings.Join(names, ", ")
	}
	return m
}

// suggest is the fix for a value that is not one of those allowed.
func suggest(bad string, allowed []string) string {
	if near := nearest(bad, allowed); near != "" {
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

// unread is the finding for an object of a kind that nobody reads: a warning where its author may expect an effect on
// traffic, an error where the kind looks mistyped, else only good to know.
func (c *catalog) unread(apiVersion, kindName string) *mistake {
	names := slices.Sorted(maps.Keys(c.byName))
	near := nearest(kindName, names)
	if near != "" && near != kindName && !slices.Contains(laterKinds, kindName) && (slices.Contains(laterGroups, groupOf(apiVersion)) || groupOf(apiVersion) == c.byName[near][0].table.Group()) {
		return &mistake{severity: report.Error, field: "kind", problem: "is unknown: " + kindName, fix: "did you mean " + near + "?"}
	}
	if slices.Contains(laterGroups, groupOf(apiVersion)) {
		return &mistake{severity: report.Warning, problem: fmt.Sprintf("has no effect: kind %s of %s is not supported yet", kindName, apiVersion)}
	}
	return &mistake{severity: report.Info, problem: fmt.Sprintf("is left out: kind %s of %s says nothing to Penstock", kindName, apiVersion)}
}

// meant says whether an apiVersion that a kind does not have is one of its own groups, or nearly.
func meant(apiVersion string, k *kind) bool {
	group := groupOf(apiVersion)
	return group == k.table.Group() || slices.ContainsFunc(k.versions, func(v version) bool {
		return group == groupOf(v.apiVersion) || group != "" && distance(group, groupOf(v.apiVersion)) <= 3
	})
}

func versionList(k *kind) string {
	var names []string
	for _, v := range k.versions {
		names = append(names, v.apiVersion)
	}
	return oneOfWords(names)
}

// nearest is the name that s was most likely meant to be, or empty.
func nearest(s string, names []string) string {
	best, bestDistance := "", min(3, max(1, len(s)/3))+1
	for _, n := range names {
		if d := distance(strings.ToLower(s), strings.ToLower(n)); d < bestDistance {
			best, bestDistance = n, d
		}
	}
	return best
}

// distance is the number of letters to change, insert or remove to get from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
