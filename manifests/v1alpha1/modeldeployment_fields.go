package v1alpha1

import (
	"encoding/json"
)

// DeploymentEnv is an environment variable of a deployment's servers.
//
// +kubebuilder:validation:XValidation:rule="!has(self.value) || !has(self.valueFrom)",message="write value or valueFrom, not both"
type DeploymentEnv struct {
	// Name of the environment variable.
	//
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_]*$`
	Name string `json:"name"`
	// Value of the environment variable. Without value and valueFrom, it is the empty string.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	Value string `json:"value,omitempty"`
	// ValueFrom is where the value is. While it is absent, no server starts.
	//
	// +optional
	ValueFrom *DeploymentEnvSource `json:"valueFrom,omitempty"`
}

// DeploymentEnvSource is the source of an environment variable.
type DeploymentEnvSource struct {
	// SecretKeyRef names a key of a Secret.
	SecretKeyRef SecretKey `json:"secretKeyRef"`
}

// SecretKey names a key of a Secret in the object's namespace.
type SecretKey struct {
	// Name of the Secret.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Key in the Secret's data. Its value has at most 32,768 bytes.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Key string `json:"key"`
}

// DeploymentAccess has the fields of an AccessPolicy, without its targets.
//
// +kubebuilder:validation:XValidation:rule="has(self.apiKeys) || has(self.jwt)",message="it lets nothing in: write apiKeys, such as {}, or jwt"
type DeploymentAccess struct {
	// APIKeys selects the API keys that are let in, as in an AccessPolicy.
	//
	// +optional
	APIKeys *AccessKeys `json:"apiKeys,omitempty"`
	// JWT describes the JSON Web Tokens that are let in, as in an AccessPolicy.
	//
	// +optional
	JWT *AccessJWT `json:"jwt,omitempty"`
	// ByModel reads the model in the bodies of requests, as in an AccessPolicy. Keys with models
	// need it.
	//
	// +optional
	ByModel bool `json:"byModel,omitempty"`
	// Usage is the source of the token counts of streams, as in an AccessPolicy.
	//
	// +optional
	// +kubebuilder:validation:Enum=Exact;Estimate
	// +kubebuilder:default=Estimate
	Usage UsageOfStreams `json:"usage,omitempty"`
	// Revoke is when open requests end whose keys no longer count, as in an AccessPolicy.
	//
	// +optional
	// +kubebuilder:validation:Enum=Immediately;AtEnd
	// +kubebuilder:default=AtEnd
	Revoke RevokeOfRequests `json:"revoke,omitempty"`

	// Nulls are the fields that are null although more would be let in without them. "" is the
	// whole. UnmarshalJSON of the spec sets it.
	Nulls []string `json:"-"`
}

// UnmarshalJSON records nulls in the field access. A null there is probably a template without a
// value, and the deployment would be open if it counted as absent.
func (s *ModelDeploymentSpec) UnmarshalJSON(raw []byte) error {
	type plain ModelDeploymentSpec
	if err := json.Unmarshal(raw, (*plain)(s)); err != nil {
		return err
	}
	var tree map[string]any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return err
	}
	switch access, written := tree["access"]; {
	case !written:
	case access == nil:
		s.Access = &DeploymentAccess{Nulls: []string{""}}
	default:
		fields, _ := access.(map[string]any)
		s.Access.Nulls = nullsIn(fields)
	}
	return nil
}

// DeploymentScheduler has the fields of a PoolPolicy's picker that choose a server of a deployment.
//
// +kubebuilder:validation:XValidation:rule="!has(self.chwbl) || self.strategy == 'chwbl'",message="chwbl is for strategy chwbl: write strategy: chwbl, or remove chwbl"
// +kubebuilder:validation:XValidation:rule="!has(self.session) || self.strategy == 'session'",message="session is for strategy session: write strategy: session, or remove session"
type DeploymentScheduler struct {
	// Strategy by which the picker selects a server, as in a PoolPolicy: load, round-robin, random,
	// least-request, tree, chwbl or session.
	//
	// +optional
	// +kubebuilder:validation:Enum=load;round-robin;random;least-request;tree;chwbl;session
	// +kubebuilder:default=load
	Strategy string `json:"strategy,omitempty"`
	// CHWBL configures strategy chwbl.
	//
	// +optional
	CHWBL *CHWBLSpec `json:"chwbl,omitempty"`
	// Session configures strategy session.
	//
	// +optional
	Session *SessionSpec `json:"session,omitempty"`
}

// DeploymentAdapter is a LoRA adapter of the model.
type DeploymentAdapter struct {
	// Name of the adapter in requests, in place of the model's name. Requests with it go to the
	// same servers.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9][A-Za-z0-9._:/@-]*$`
	Name string `json:"name"`
	// Source is where the adapter is. An engine that loads no files, such as sim, needs none.
	//
	// +optional
	Source *AdapterSource `json:"source,omitempty"`
}

// AdapterSource is a path, or a model of a ModelRegistry.
//
// +kubebuilder:validation:XValidation:rule="has(self.path) != has(self.registry)",message="write path, or registry and name"
// +kubebuilder:validation:XValidation:rule="has(self.registry) == has(self.name)",message="registry and name belong together"
// +kubebuilder:validation:XValidation:rule="has(self.registry) || !has(self.version) && !has(self.file)",message="only an adapter of a registry has a version or a file"
type AdapterSource struct {
	// Path is the absolute path of the adapter on this machine: a folder for vllm.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^/[^\x00-\x1f\x7f]*$`
	Path string `json:"path,omitempty"`
	// Registry is the name of a ModelRegistry of the deployment's namespace. Penstock downloads the
	// adapter from it before it starts servers.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Registry string `json:"registry,omitempty"`
	// Name of the adapter in the registry, such as ORG/NAME.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[^-*\x00-\x1f\x7f][^*\x00-\x1f\x7f]*$`
	Name string `json:"name,omitempty"`
	// Version is a branch, a tag or a commit in the registry, as in spec.model. Defaults to main.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[^\x00-\x20\x7f]+$`
	Version string `json:"version,omitempty"`
	// File is a file in the registry. Defaults to the whole folder.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^[^\x00-\x1f\x7f]+$`
	File string `json:"file,omitempty"`
}

// AdapterTemplate are the arguments of an engine that loads LoRA adapters.
type AdapterTemplate struct {
	// Args precede the arguments of all adapters.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=4096
	// +listType=atomic
	Args []string `json:"args,omitempty"`
	// Each are the arguments of each adapter. Beside the values of all texts, they may contain
	// ${adapter.name}, ${adapter.path}, and ${adapter.json}, an object with both in JSON.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=4096
	// +listType=atomic
	Each []string `json:"each"`
}
