package v1alpha1

import (
	"cmp"
	"encoding/json"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/penstock-project/penstock/manifests/deepcopy"
)

// DeploymentLabel marks the model servers of a ModelDeployment, and the objects that Penstock
// derives from it. Its value is the deployment's name.
const DeploymentLabel = Group + "/deployment"

// The tasks of a model.
const (
	TextGeneration = "text-generation"
	TextEmbedding  = "text-embedding"
	TextRerank     = "text-rerank"
)

// The strategies of a change.
const (
	RollingUpdate = "RollingUpdate"
	Recreate      = "Recreate"
)

// The strategies of placement.
const (
	Pack   = "Pack"
	Spread = "Spread"
)

// ModelDeployment starts servers of a model, and routes requests to them by the name of the model.
// Penstock derives an InferencePool, ModelServers, an HTTPRoute, and an AccessPolicy and PoolPolicy
// where its fields need them, with the deployment's name. They exist in Penstock's memory only. On
// Kubernetes Penstock starts no servers yet.
//
// +kubebuilder:resource:scope=Namespaced,shortName=md,path=modeldeployments,singular=modeldeployment
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Engine",type=string,JSONPath=`.spec.engine.name`
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.spec.model.name`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ModelDeployment struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec ModelDeploymentSpec `json:"spec"`
	// Status reports whether the deployment is valid and its servers are ready.
	//
	// +optional
	// +kubebuilder:default={}
	Status ModelDeploymentStatus `json:"status,omitzero"`
}

// DeepCopyObject implements runtime.Object.
func (in *ModelDeployment) DeepCopyObject() runtime.Object { return deepcopy.Of(in) }

// ModelDeploymentStatus is the status of a ModelDeployment.
type ModelDeploymentStatus struct {
	// ObservedGeneration is the generation of the object that the conditions describe. It is -1
	// before Penstock has written conditions.
	//
	// +optional
	// +kubebuilder:default=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions of the deployment. Accepted is False if the deployment is invalid, with reason
	// ClusterNotFound if spec.cluster names another cluster. The reason of Ready is the
	// deployment's phase: Pending, ModelDownloading, Deploying, Running, Asleep,
	// Failed or Paused.
	//
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ModelDeploymentSpec is the specification of a ModelDeployment.
type ModelDeploymentSpec struct {
	// Engine is the program that serves the model.
	Engine DeploymentEngine `json:"engine"`
	// Model is the model that is served.
	Model DeploymentModel `json:"model"`
	// Replicas is the number of servers. With 0 the deployment is paused.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=256
	// +kubebuilder:default=1
	Replicas *int32 `json:"replicas,omitempty"`
	// Idle is the time without requests after which the servers stop, such as 15m. The next request
	// starts them, and waits until one serves. With 0s they do not stop.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('0s') && duration(self) <= duration('720h')",message="idle must be 0s to 720h, such as 15m"
	// +kubebuilder:default="15m"
	Idle *metav1.Duration `json:"idle,omitempty"`
	// Keep exempts the servers from swapping: they do not stop to make room for the model of a
	// request that waits. They stop after spec.idle nevertheless.
	//
	// +optional
	Keep bool `json:"keep,omitempty"`
	// Strategy is how a change replaces servers. With RollingUpdate, a new server starts beside the
	// old ones where it has room, and an old one then ends after its requests. Without room, the
	// servers of several replicas change one after another, and the one server of a single replica
	// does not change. With Recreate, all servers end after their requests before new ones start;
	// requests wait meanwhile.
	//
	// +optional
	// +kubebuilder:validation:Enum=RollingUpdate;Recreate
	// +kubebuilder:default=RollingUpdate
	Strategy string `json:"strategy,omitempty"`
	// Resources that each server gets.
	//
	// +optional
	Resources DeploymentResources `json:"resources,omitzero"`
	// Placement decides which accelerators servers get that start.
	//
	// +optional
	Placement DeploymentPlacement `json:"placement,omitzero"`
	// Variables are arguments of the engine, by name without leading dashes; - and _ are equal. A
	// value true sets a flag, false omits it; lists and objects become JSON. The engine's
	// valuesSchema validates them. An argument that the schema does not declare is passed with a
	// warning.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=256
	Variables map[string]apiextensionsv1.JSON `json:"variables,omitempty"`
	// Env are environment variables of the servers. They override the engine's.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=name
	Env []DeploymentEnv `json:"env,omitempty"`
	// Adapters are LoRA adapters that the servers load. Requests name them as their model.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=15
	// +listType=map
	// +listMapKey=name
	Adapters []DeploymentAdapter `json:"adapters,omitempty"`
	// Scheduler configures how a server is chosen for each request. Defaults to strategy load.
	//
	// +optional
	Scheduler *DeploymentScheduler `json:"scheduler,omitempty"`
	// Access requires an API key or a JSON Web Token for requests. Penstock derives an AccessPolicy
	// with the deployment's name from it, whose targets are the derived HTTPRoute and the
	// InferencePool. If it is null, no request is let in. By default, all requests are let in that
	// no other AccessPolicy denies.
	//
	// +optional
	// +nullable
	Access *DeploymentAccess `json:"access,omitempty"`
	// Cluster is the name of the cluster that runs the servers. It must be the name of this
	// cluster. Defaults to this cluster.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Cluster string `json:"cluster,omitempty"`
	// GatewayRefs are the Gateways that route requests for the model. Without them, only the
	// InferencePool exists.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	GatewayRefs []DeploymentGateway `json:"gatewayRefs,omitempty"`
	// Hostnames of requests. Defaults to the hostnames of the Gateways' listeners. They are
	// required with a Gateway of another namespace.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +listType=set
	Hostnames []string `json:"hostnames,omitempty"`
}

// DeploymentEngine names an Engine.
type DeploymentEngine struct {
	// Name of the Engine: vllm, llama-cpp, sim, or an Engine object.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Version of the Engine. Defaults to its first version.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Version string `json:"version,omitempty"`
}

// DeploymentPlacement decides which accelerators servers get.
type DeploymentPlacement struct {
	// Strategy is how fractions of accelerators are placed. With Pack, a server gets the fullest
	// accelerator that has room. With Spread, it prefers an accelerator without another server of
	// the deployment, then the emptiest one. Whole accelerators are always different ones.
	//
	// +optional
	// +kubebuilder:validation:Enum=Pack;Spread
	// +kubebuilder:default=Pack
	Strategy string `json:"strategy,omitempty"`
}

// DeploymentResources are the resources of each server of a deployment. A server starts once there
// is room for all of them.
type DeploymentResources struct {
	// CPU is the number of processor cores that are reserved for each server, such as 4 or 500m. It
	// is a reservation, not a limit: a server may use more. The reservations of all servers that
	// Penstock runs fit the cores that its own process may use: the machine's, or its control
	// group's limit. By default, nothing is reserved.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).isGreaterThan(quantity('0')) && quantity(string(self)).isLessThan(quantity('1M'))",message="write a number of cores above 0, such as 4 or 500m"
	CPU *resource.Quantity `json:"cpu,omitempty"`
	// Memory is the main memory that is reserved for each server, such as 16Gi. It is a reservation
	// as cpu is: a server may use more. A server whose reservation has no room waits, and idle
	// deployments stop to make room for a request, as with accelerators. The memory of accelerators
	// does not count.
	//
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('1Mi')) >= 0 && quantity(string(self)).isLessThan(quantity('1P'))",message="write an amount from 1Mi to 1P, such as 16Gi"
	Memory *resource.Quantity `json:"memory,omitempty"`
	// GPU is the number of accelerators of each server: a whole number, or a fraction below 1 of
	// one accelerator. A whole accelerator has one server. Fractions share an accelerator until
	// their sum is 1; this isolates nothing. With 0 a server sees no accelerator. By default, a
	// server is not restricted, and nothing is reserved for it.
	//
	// +optional
	GPU *DeviceCount `json:"gpu,omitempty"`
	// Accelerator is a part of the name of the accelerator's product, such as L40S. Defaults to any
	// product. The accelerators of one server are always of one product.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Accelerator string `json:"accelerator,omitempty"`
}

// DeviceCount is a decimal number of accelerators, in the form that its author wrote.
//
// +kubebuilder:validation:Type=number
// +kubebuilder:validation:Minimum=0
// +kubebuilder:validation:Maximum=256
type DeviceCount struct {
	// Text is a number in JSON; "" is 0.
	Text string `json:"-"`
}

// MarshalJSON implements json.Marshaler.
func (c DeviceCount) MarshalJSON() ([]byte, error) {
	return json.Marshal(json.Number(cmp.Or(c.Text, "0")))
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *DeviceCount) UnmarshalJSON(raw []byte) error {
	var number json.Number
	if err := json.Unmarshal(raw, &number); err != nil {
		return err
	}
	c.Text = number.String()
	return nil
}

// DeploymentModel is the model of a deployment.
//
// +kubebuilder:validation:XValidation:message="without a registry, write an absolute path",fieldPath=".file",rule="has(self.registry) || !has(self.file) || self.file.startsWith('/')"
// +kubebuilder:validation:XValidation:message="only a model of a registry has a version",fieldPath=".version",rule="has(self.registry) || !has(self.version)"
type DeploymentModel struct {
	// Name of the model in the registry, such as ORG/NAME. Without a registry, it is the name as
	// the engine knows it: for vllm a name on Hugging Face, or the path of a folder.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[^-*\x00-\x1f\x7f][^*\x00-\x1f\x7f]*$`
	Name string `json:"name"`
	// Registry is the name of a ModelRegistry of the deployment's namespace. Penstock downloads the
	// model from it before it starts servers.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Registry string `json:"registry,omitempty"`
	// Version is a branch, a tag or a commit in the registry. It is resolved to a commit once, and
	// again when the model's fields change. Defaults to main.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[^\x00-\x20\x7f]+$`
	Version string `json:"version,omitempty"`
	// File is the absolute path of the model's file, such as a .gguf for llama-cpp. With a
	// registry, it is a file there, or the quantization of a GGUF, such as Q4_K_M. By default, a
	// model with safetensors is the whole folder, and of several files in GGUF the one with Q4_K_M
	// is used.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^[^\x00-\x1f\x7f]+$`
	File string `json:"file,omitempty"`
	// Task of the model: text-generation, text-embedding or text-rerank. It decides which paths are
	// routed.
	//
	// +optional
	// +kubebuilder:validation:Enum=text-generation;text-embedding;text-rerank
	// +kubebuilder:default=text-generation
	Task string `json:"task,omitempty"`
	// ServedName is the name of the model in requests. Defaults to name.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[^-*\x00-\x1f\x7f][^*\x00-\x1f\x7f]*$`
	ServedName string `json:"servedName,omitempty"`
}

// DeploymentGateway names a Gateway.
type DeploymentGateway struct {
	// Namespace of the Gateway. Defaults to the deployment's namespace.
	//
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// Name of the Gateway.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// SectionName is the name of a listener. Defaults to all listeners.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SectionName string `json:"sectionName,omitempty"`
}
