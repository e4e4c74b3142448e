package inferenceapi

import (
	"bytes"
	"encoding/json"
)

// UnmarshalJSON also accepts a single object instead of the list: the multi-cluster proposal has a
// list in its Go types and an object in its examples. Otherwise a single object in one import would
// make all imports of a cluster unreadable.
func (s *ServiceImports) UnmarshalJSON(text []byte) error {
	if text = bytes.TrimSpace(text); !bytes.HasPrefix(text, []byte("{")) {
		return json.Unmarshal(text, (*[]ServiceImport)(s))
	}
	var one ServiceImport
	if err := json.Unmarshal(text, &one); err != nil {
		return err
	}
	*s = ServiceImports{one}
	return nil
}
