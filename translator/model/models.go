package model

// Models configures the model names in requests (InferenceModel, InferenceModelRewrite) and the
// objectives (InferenceObjective).
type Models struct {
	Named map[string]ModelRule // keyed by the name in the request
	Other *ModelRule           // for other names; nil: these requests do not change
	// Objectives maps names to priorities. A higher priority goes first; 0 is normal.
	Objectives map[string]int32
}

// ModelRule applies to requests for one model name.
type ModelRule struct {
	Criticality string        // v1alpha1.Criticality; "": the pool's
	Targets     []ModelTarget // one of them replaces the model's name; without any, the name stays
}

// ModelTarget is the name of a model at the servers. Weight is at least 1.
type ModelTarget struct {
	Name   string
	Weight int32
}
