package inferenceapi

import (
	"bytes"
	"encoding/json"
)

// UnmarshalJSON also takes the only one as an object: the multi-cluster proposal has a list in its Go types and an object in its
// examples, and one object of another product must not keep all those of a cluster from being read.
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
