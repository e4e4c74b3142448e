// Package deployment turns one ModelDeployment and its Engine into a Plan: the command line of each
// server, and the objects that route requests to the servers. discovery/engine/controller
// stores the objects and runs the processes.
//
// The objects have the deployment's name and namespace, and the label v1alpha1.DeploymentLabel:
//
//	InferencePool  selects the servers by that label
//	PoolPolicy     names the engine's metrics, unless they are vLLM's, and has spec.scheduler
//	HTTPRoute      matches the paths of the task and the names of the model and its adapters
//	               (x-gateway-model-name)
//	AccessPolicy   has spec.access, for the HTTPRoute and the InferencePool
//	ModelServers   has the addresses of the servers that are ready
//
// Memory (memory.go) reads the settings that discovery/engine/memory needs for an estimate from the
// command line.
//
// Invariants: New has no side effects, and equal objects give an equal Plan. A mistake becomes a
// finding about a field of the ModelDeployment. New returns no Plan if a finding is an error.
//
// Tests: go test ./discovery/engine/deployment
package deployment
