package endpoint

import "strings"

type shown struct{ queue, running, kv bool }

func (d *dialect) missing(has shown) string {
	var names []string
	add := func(has bool, s *series) {
		if !has && s.name != "" {
			names = append(names, s.String())
		}
	}
	add(has.running, &d.running)
	add(has.kv, &d.kv)
	if len(names) == 0 {
		return ""
	}
	count := "counts"
	if len(names) > 1 {
		count = "count"
	}
	return "the page has no series " + strings.Join(names, ", ") + ", which " + count + " as 0: " + setNames
}

// String returns s in a PoolPolicy's syntax: NAME or NAME{LABEL=VALUE}.
func (s *series) String() string {
	if len(s.labels) == 0 {
		return s.name
	}
	pairs := make([]string, len(s.labels))
	for i, l := range s.labels {
		pairs[i] = l.name + "=" + l.value
	}
	return s.name + "{" + strings.Join(pairs, ",") + "}"
}

func joined(first, second string) string {
	if first == "" || second == "" {
		return first + second
	}
	return first + "; " + second
}
