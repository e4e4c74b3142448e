package file

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/discovery/status/report"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

func (s *schema) unknownField(path string) mistake {
	m := wrong(path, "is not a known field", "")
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

// nearest returns the known kind whose name is nearest to a mistyped name; "": no name is near.
func (c *catalog) nearest(kindName string) string {
	if c.byName[kindName] != nil || slices.Contains(laterKinds, kindName) {
		return kindName
	}
	return report.Nearest(kindName, slices.Sorted(maps.Keys(c.byName)))
}

func (c *catalog) unreadKind(apiVersion, kindName string) *mistake {
	group := groupOf(apiVersion)
	near := c.nearest(kindName)
	switch k := c.byName[near]; {
	case near != "" && near != kindName && (slices.Contains(laterGroups, group) || likelyMeant(apiVersion, k[0])):
		return new(wrong("kind", "is unknown: "+kindName, "did you mean "+near+"?"))
	case ourGroup(group):
		return new(wrong("kind", "is unknown: "+kindName, "write "+oneOfWords(c.ours())))
	case slices.Contains(laterGroups, group):
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

func (c *catalog) ours() (names []string) {
	for name, kinds := range c.byName {
		if kinds[0].table.Group() == v1alpha1.Group {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

var ourName, _, _ = strings.Cut(v1alpha1.Group, ".")

// ourGroup reports whether a group is Penstock's API group, perhaps mistyped.
func ourGroup(group string) bool {
	return report.Distance(strings.ToLower(group), v1alpha1.Group) <= 3 ||
		slices.ContainsFunc(strings.Split(strings.ToLower(group), "."), func(label string) bool {
			return report.Distance(label, ourName) <= 2
		})
}

// likelyMeant reports whether a document with this apiVersion and the kind's name likely means kind
// k, although k does not accept the apiVersion. A document without a group likely means k, because
// no core kind has the name of a kind in another group.
func likelyMeant(apiVersion string, k *kind) bool {
	group := groupOf(apiVersion)
	if group == "" || group == k.table.Group() || slices.Contains(laterGroups, group) ||
		k.table.Group() == v1alpha1.Group && ourGroup(group) {
		return true
	}
	return slices.ContainsFunc(k.versions, func(v version) bool {
		return group == groupOf(v.apiVersion) || report.Distance(group, groupOf(v.apiVersion)) <= 3
	})
}

func versionList(k *kind) string {
	var names []string
	for _, v := range k.versions {
		names = append(names, v.apiVersion)
	}
	return oneOfWords(names)
}
