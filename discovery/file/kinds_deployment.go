package file

import (
	"fmt"
	"math"
	"strings"
)

// neutreeNames maps Neutree's names of scheduler fields, in lower case without separators, to
// Penstock's names.
var neutreeNames = map[string]string{
	"type": "strategy", "virtualnodes": "virtualNodesPerReplica", "virtualnodesperreplica": "virtualNodesPerReplica",
	"loadfactor": "loadFactorPercent", "loadfactorpercent": "loadFactorPercent",
	"maxusermessagesforcache": "maxUserMessagesForCache",
}

// neutreeStrategies maps Neutree's names of strategies, in lower case without separators, to
// Penstock's names.
var neutreeStrategies = map[string]string{
	"roundrobin": "round-robin", "chwbl": "chwbl", "consistenthash": "chwbl", "consistenthashing": "chwbl",
	"consistenthashingwithboundedloads": "chwbl", "leastrequest": "least-request", "load": "load", "random": "random",
	"tree": "tree", "session": "session",
}

func plainName(name string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(name))
}

// fromNeutree removes the fields of spec.scheduler that have Neutree's names. It reports a mistake
// for each, with Penstock's name and the converted value.
func fromNeutree(obj map[string]any) (out []mistake) {
	spec, _ := obj["spec"].(map[string]any)
	scheduler, _ := spec["scheduler"].(map[string]any)
	chwbl, _ := scheduler["chwbl"].(map[string]any)
	const field = "spec.scheduler"
	meant := ""
	for _, written := range sortedKeys(scheduler) {
		ours, known := neutreeNames[plainName(written)]
		if !known && written != "strategy" {
			continue
		}
		value := scheduler[written]
		switch {
		case written == "strategy" || ours == "strategy":
			text, isText := value.(string)
			strategy := neutreeStrategies[plainName(text)]
			if !isText || written == "strategy" && (strategy == "" || strategy == text) {
				continue // validation by the schema reports it
			}
			fix := "write strategy: load, round-robin or chwbl"
			if strategy != "" {
				fix = "write strategy: " + strategy
				meant = strategy
			}
			out = append(out, wrong(join(field, written), fmt.Sprintf("is Neutree's form: %.100q", text), fix))
		default:
			out = append(out, wrong(join(field, written), "belongs into chwbl here",
				fmt.Sprintf("write chwbl: {%s: %s}", ours, converted(ours, value))))
		}
		delete(scheduler, written)
	}
	if meant != "" {
		scheduler["strategy"] = meant // so that rules of the schema about the strategy do not fail
	}
	for _, written := range sortedKeys(chwbl) {
		ours, known := neutreeNames[plainName(written)]
		value, isNumber := number(chwbl[written])
		switch fraction := isNumber && ours == "loadFactorPercent" && value < 100; {
		case !known || ours == "strategy" || written == ours && !fraction:
			continue
		case written == ours:
			out = append(out, wrong(join(field+".chwbl", written), "is a percentage, at least 100",
				"did you mean "+converted(ours, chwbl[written])+"?"))
		default:
			out = append(out, wrong(join(field+".chwbl", written), "is not a known field",
				fmt.Sprintf("did you mean %s: %s?", ours, converted(ours, chwbl[written]))))
		}
		delete(chwbl, written)
	}
	return out
}

// converted returns the value for Penstock's field, as text. Neutree's load factor 1.25 becomes 125
// (percent).
func converted(field string, value any) string {
	n, ok := number(value)
	switch {
	case !ok:
		return "NUMBER"
	case field == "loadFactorPercent" && n < 100:
		n *= 100
	}
	return fmt.Sprint(int64(math.Round(math.Max(math.Min(n, math.MaxInt32), 0))))
}
