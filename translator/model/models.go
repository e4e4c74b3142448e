package model

// Models configures the models that requests name (InferenceModel, InferenceModelRewrite) and the
// objectives (InferenceObjective).
type Models struct {
	Named map[string]ModelRule // keyed by the name in the request
	Other *ModelRule           // for any other name; nil: the model stays
	// Objectives maps names to priorities. A higher priority goes first; 0 is normal.
	Objectives map[string]int32
}

// ModelRule applies to the requests for a model.
type ModelRule struct {
	Criticality string        // v1alpha1.Criticality; "": as for the pool
	Targets     []ModelTarget // one of them replaces the model; none: the model stays
}

// ModelTarget is a model of the servers, with weight 1 or more.
type ModelTarget struct {
	Name   string
	Weight int32
}
