package v1alpha1

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// wider lists the optional fields of a policy without which it lets in more, or trusts more. A null
// there is probably a template without a value.
var wider = []string{
	"apiKeys.namespaces", "apiKeys.selector", "apiKeys.selector.matchExpressions", "apiKeys.selector.matchLabels",
	"jwt.caCertificateRefs", "jwt.claims", "jwt.claims.models", "jwt.jwks", "members",
}

// UnmarshalJSON records nulls in Nulls. It does not fail, because a policy that cannot be decoded
// would leave its targets open. The schema allows these nulls, because an API server drops null
// from other fields.
func (s *AccessPolicySpec) UnmarshalJSON(raw []byte) error {
	type plain AccessPolicySpec
	if err := json.Unmarshal(raw, (*plain)(s)); err != nil {
		return err
	}
	var tree map[string]any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return err
	}
	s.Nulls = nullsIn(tree)
	return nil
}

// nullsIn returns the fields of a policy's spec that are null although it would let in more without
// them.
func nullsIn(tree map[string]any) (nulls []string) {
	for _, path := range wider {
		if v, ok := valueAt(tree, path); ok && v == nil {
			nulls = append(nulls, path)
		}
	}
	const labels = "apiKeys.selector.matchLabels"
	v, _ := valueAt(tree, labels)
	values, _ := v.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if values[name] == nil {
			nulls = append(nulls, labels+"."+name)
		}
	}
	return nulls
}

func valueAt(tree map[string]any, path string) (value any, ok bool) {
	value = tree
	for name := range strings.SplitSeq(path, ".") {
		object, isObject := value.(map[string]any)
		if !isObject {
			return nil, false
		}
		if value, ok = object[name]; !ok {
			return nil, false
		}
	}
	return value, true
}
