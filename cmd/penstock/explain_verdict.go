package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-project/penstock/picker"
	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/schedule"
)

const maxTargets = 8

func strategyText(e picker.Explanation) string {
	text := e.Strategy + choiceText(e.Choice)
	if e.Criticality != "" {
		text += ", " + string(e.Criticality) + " requests"
	}
	return text
}

func verdictText(v schedule.Verdict) string {
	s := v.State
	since := ""
	if s.Queue > 0 && s.Unseen > 0 {
		since = fmt.Sprintf(" and %d picked since", s.Unseen)
	}
	load := fmt.Sprintf("queue %.0f%s, running %.0f, KV cache %.0f%%", s.Queue, since, s.Running, s.KV*100)
	if !s.Fresh {
		load = "no fresh metrics"
	}
	if v.Problem != "" {
		load += " (" + v.Problem + ")"
	}
	if v.Prefixes != "" {
		load += ", prefixes " + v.Prefixes
	}
	load += adaptersText(s.Adapters)
	if s.Rate > 0 {
		load += ", " + rateText(s.Rate, s.RateFrom)
	}
	switch {
	case s.Silent != nil:
		load += ", suspect: " + s.Silent.String()
	case v.Suspect == schedule.Failing && v.Failure != nil:
		load += ", suspect: " + v.Failure.String()
	case v.Suspect == schedule.Stale:
		load += ", suspect: no request has succeeded since"
	}
	name := v.Address
	if v.Pod != "" {
		name += " (" + v.Pod + ")"
	}
	text := fmt.Sprintf("%s: %s, %d of our requests in flight", name, load, s.InFlight)
	if v.Out != "" {
		return text + "; out: " + v.Out
	}
	return text + costText(v)
}

// adaptersText lists LoRA adapters. a.Max is how many the server can hold; 0 means unknown.
func adaptersText(a *endpoint.Adapters) string {
	if a == nil {
		return ""
	}
	text := ", adapters " + cmp.Or(strings.Join(a.Running, " "), "none")
	if a.Max > 0 {
		text += fmt.Sprintf(" (%d of %d slots)", len(a.Running), a.Max)
	}
	if len(a.Waiting) > 0 {
		text += ", waiting adapters " + strings.Join(a.Waiting, " ")
	}
	return text
}

// costText formats a cost. It is in seconds with strategy load, and has no unit otherwise.
func costText(v schedule.Verdict) (text string) {
	switch {
	case v.Cost == nil:
	case len(v.Costs) > 1:
		text = fmt.Sprintf("; cost %.3f s%s", *v.Cost, costParts(v))
	default:
		text = fmt.Sprintf("; cost %g", *v.Cost)
	}
	if v.TTFT > 0 {
		text += fmt.Sprintf("; predicted TTFT %.0f ms, TPOT %.0f ms", v.TTFT*1000, v.TPOT*1000)
	}
	if v.Late {
		text += "; misses the request's objective"
	}
	if v.Session {
		text += "; the session is here"
	}
	if len(v.Scores) > 0 {
		text += fmt.Sprintf("; score %.3f (%s)", v.Score, scoreParts(v))
	}
	if v.Place > 0 {
		text += fmt.Sprintf("; place %d on the hash ring", v.Place)
	}
	switch v.Trial {
	case "speed":
		text += "; its speed was learned long ago: a sheddable request may try it"
	case "due":
		text += "; suspect: the next request may try it"
	case "wait":
		text += "; suspect: waits for its next trial"
	}
	return text
}

func costParts(v schedule.Verdict) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(v.Costs)) {
		if cost := v.Costs[name]; cost >= 0.0005 {
			parts = append(parts, fmt.Sprintf("%s %.3f", name, cost))
		}
	}
	if len(v.Costs) < 2 || len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

func scoreParts(v schedule.Verdict) string {
	var parts []string
	for _, s := range v.Scores {
		parts = append(parts, fmt.Sprintf("%s %.3f x %g", s.Plugin, s.Score, s.Weight))
	}
	return strings.Join(parts, ", ")
}

func costCell(v schedule.Verdict) string {
	if len(v.Scores) > 0 {
		return fmt.Sprintf("score %.3f (%s)", v.Score, scoreParts(v))
	}
	if v.Cost == nil {
		return "-"
	}
	return fmt.Sprintf("%.3f", *v.Cost) + costParts(v)
}
