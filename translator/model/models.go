package model

// Models is what our picker does with the models that requests to a pool name (InferenceModel,
// InferenceModelRewrite), and with the objectives (InferenceObjective). It must not be changed.
type Models struct {
	Named map[string]ModelRule // by the name in the request
	Other *ModelRule           // of any other name; nil: nothing is done
	// Objectives are priorities by the names of InferenceObjectives: higher ones first, 0 for usual
	// requests.
	Objectives map[string]int32
}

// ModelRule is what is done with the requests for a model.
type ModelRule struct {
	Criticality string        // v1alpha1.Criticality; "": the pool's
	Targets     []ModelTarget // the model is replaced by one of them; none: it stays
}

// ModelTarget is a model that a server has. Its weight is at least 1.
type ModelTarget struct {
	Name   string
	Weight int32
}
