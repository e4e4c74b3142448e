// Package deployment turns one ModelDeployment and its Engine into a Plan: the command line of each
// server, and the objects that route requests to the servers. cmd/penstock/internal/deployments
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
// Memory (memory.go) reads from the command what discovery/engine/memory needs for an estimate.
//
// Invariants: New is pure: equal objects give an equal Plan. A mistake is a finding about a field
// of the ModelDeployment. A Plan exists only without findings of severity error.
//
// Tests: go test ./discovery/engine/deployment
package deployment
