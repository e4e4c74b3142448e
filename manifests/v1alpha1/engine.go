package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/penstock-project/penstock/manifests/deepcopy"
)

// Engine is a program that serves models, such as vLLM or llama.cpp's server. ModelDeployments name
// it. Penstock contains the Engines vllm, llama-cpp and sim; an object with one of these names
// replaces the built-in Engine.
//
// +kubebuilder:resource:scope=Cluster,path=engines,singular=engine
type Engine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec EngineSpec `json:"spec"`
}

// DeepCopyObject implements runtime.Object.
func (in *Engine) DeepCopyObject() runtime.Object { return deepcopy.Of(in) }

// EngineSpec is the specification of an Engine.
type EngineSpec struct {
	// Versions of the engine. A ModelDeployment without a version uses the first.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=version
	Versions []EngineVersion `json:"versions"`
}

// EngineVersion is one version of an Engine.
type EngineVersion struct {
	// Version is the engine's own name of the version, such as v0.32.0.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([A-Za-z0-9._+-]*[A-Za-z0-9])?$`
	Version string `json:"version"`
	// SupportedTasks are the tasks that this version can serve.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:items:Enum=text-generation;text-embedding;text-rerank
	// +listType=set
	SupportedTasks []string `json:"supportedTasks"`
	// ValuesSchema is a JSON Schema of the arguments that a ModelDeployment may set in variables.
	// Its properties are names of arguments; - and _ are equal in them. References to files and
	// URLs are invalid.
	//
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	ValuesSchema *apiextensionsv1.JSON `json:"valuesSchema,omitempty"`
	// Metrics selects the names of the series in the engine's metrics, as picker.metrics.engine of
	// a PoolPolicy does. Defaults to vllm.
	//
	// +optional
	// +kubebuilder:validation:Enum=vllm;sglang;trtllm-serve;triton-tensorrt-llm;llamacpp
	Metrics string `json:"metrics,omitempty"`
	// Devices describes the accelerators that the engine uses. Without it, no ModelDeployment of
	// the engine can request accelerators.
	//
	// +optional
	Devices *EngineDevices `json:"devices,omitempty"`
	// Images are container images of this version by accelerator: nvidia, amd, or cpu for servers
	// without an accelerator. Each reference has a tag or a digest.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=3
	// +kubebuilder:validation:XValidation:rule="self.all(name, name in ['nvidia', 'amd', 'cpu'])",message="an accelerator has another name: write nvidia, amd or cpu"
	Images map[string]ImageReference `json:"images,omitempty"`
	// Capabilities lists features of this version beside its tasks.
	//
	// +optional
	Capabilities EngineCapabilities `json:"capabilities,omitzero"`
	// DeployTemplate describes how the engine is started.
	DeployTemplate DeployTemplate `json:"deployTemplate"`
}

// ImageReference names a container image with a tag or a digest.
//
// +kubebuilder:validation:MaxLength=512
// +kubebuilder:validation:XValidation:rule="self.matches('^(([A-Za-z0-9.-]+|[[][0-9a-fA-F:]+[]])(:[0-9]{1,5})?/)?[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+(([.]|_|__|-+)[a-z0-9]+)*)*(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127}(@sha256:[0-9a-f]{64})?|@sha256:[0-9a-f]{64})$')",message="write an image with a tag or a digest, such as vllm/vllm-openai:v0.32.0"
type ImageReference string

// EngineCapabilities lists features of a version of an engine.
type EngineCapabilities struct {
	// LoRA has the arguments for the LoRA adapters of a deployment. Without it, no ModelDeployment
	// of this version can have adapters.
	//
	// +optional
	LoRA *AdapterTemplate `json:"lora,omitempty"`
	// MetricsExport is where the engine has its metrics, if that is not the usual page of metrics.
	//
	// +optional
	MetricsExport *MetricsExport `json:"metricsExport,omitempty"`
}

// MetricsExport describes the page of an engine's metrics.
type MetricsExport struct {
	// Path of the page, as picker.metrics.path of a PoolPolicy.
	//
	// +kubebuilder:validation:Pattern=`^/`
	// +kubebuilder:validation:MaxLength=1024
	Path string `json:"path"`
}

// EngineDevices describes the accelerators of an engine.
type EngineDevices struct {
	// List is a command with its arguments. It prints one line for each accelerator of the machine:
	// index, UUID, name of the product, memory in MiB, and optionally Enabled if the accelerator is
	// in MIG mode. Commas separate them. The program is searched on PATH.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	// +listType=atomic
	List []string `json:"list"`
	// Variable is the environment variable that selects the accelerators of a process. Its value
	// has their indexes, with commas between them. With CUDA_VISIBLE_DEVICES, a process also gets
	// CUDA_DEVICE_ORDER=PCI_BUS_ID.
	//
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_]*$`
	Variable string `json:"variable"`
	// ParallelArguments are arguments of the engine, without dashes, that divide a model over
	// accelerators. A server with several accelerators gets their number as the first argument,
	// unless the deployment's variables set one of these arguments.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z][A-Za-z0-9._-]*$`
	// +listType=atomic
	ParallelArguments []string `json:"parallelArguments,omitempty"`
	// MemoryArgument is the argument of the engine, without dashes, that limits its part of an
	// accelerator's memory. A server with a fraction of an accelerator gets the fraction as this
	// argument, unless the deployment's variables set it.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9._-]*$`
	MemoryArgument string `json:"memoryArgument,omitempty"`
	// Memory describes the memory that the engine needs when it starts. Without it, Penstock does
	// not estimate whether a model fits.
	//
	// +optional
	Memory *EngineMemory `json:"memory,omitempty"`
}

// DeployTemplate describes how an engine is started.
type DeployTemplate struct {
	// Process describes the engine as a process of this machine.
	Process ProcessTemplate `json:"process"`
	// Kubernetes is a template of the pods of a Deployment, with metadata and spec of a pod. Its
	// container engine is the model server. Texts may contain the paths of process, except
	// ${replica}; an integer may be ${port}. The container's image defaults to one of images, its
	// args and env to the ones of process, its port http to 8000, its probes to process.ready. The
	// arguments of the task, the adapters and the variables, and the deployment's env and resources
	// are added. Penstock deploys no pods yet: penstock engines render prints them.
	//
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Kubernetes *apiextensionsv1.JSON `json:"kubernetes,omitempty"`
}

// ProcessTemplate describes a process. Texts in args, tasks and env may contain ${host}, ${port},
// ${namespace}, ${deployment}, ${replica}, ${model.name}, ${model.file}, ${model.servedName} and
// ${model.source}, which is model.file, or without a file model.name. For a model of a registry,
// model.file is the path of its file or folder on this machine. Penstock replaces them after it has
// parsed the object, so a value is always one argument.
type ProcessTemplate struct {
	// Program is the name of the program, or an absolute path. A name is searched on PATH, then in
	// the folders of path, then among the engines that penstock engines install has installed. The
	// program penstock is always the one that runs.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Program string `json:"program"`
	// Path lists folders in which the program is searched if it is not on PATH.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=4096
	// +kubebuilder:validation:items:Pattern=`^/`
	// +listType=atomic
	Path []string `json:"path,omitempty"`
	// Install is a command that installs the program. The status of a deployment prints it if the
	// program is absent.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Install string `json:"install,omitempty"`
	// Args are the program's arguments. The arguments of the task, the adapters and the
	// deployment's variables follow them. A variable cannot set an argument that is written here.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=4096
	// +listType=atomic
	Args []string `json:"args,omitempty"`
	// Tasks are further arguments for each task.
	//
	// +optional
	// +kubebuilder:validation:MaxProperties=3
	Tasks map[string][]string `json:"tasks,omitempty"`
	// Env are environment variables of the process.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=name
	Env []EngineEnv `json:"env,omitempty"`
	// Ready is the path that answers 200 once the engine serves.
	//
	// +optional
	// +kubebuilder:validation:Pattern=`^/`
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:default="/health"
	Ready string `json:"ready,omitempty"`
	// Listener is which process may listen at the port. With Owned, the engine is ready only if the
	// program or one of its descendants listens there. A command such as docker run starts the
	// server outside of its own processes: with Any, an answer at ready is enough. Then Penstock
	// takes another process that answers there for the engine, and restarts no engine that hangs.
	//
	// +optional
	// +kubebuilder:validation:Enum=Owned;Any
	// +kubebuilder:default=Owned
	Listener string `json:"listener,omitempty"`
	// StartupTimeoutSeconds is the time from the start of the process until it must be ready.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:default=1200
	StartupTimeoutSeconds int32 `json:"startupTimeoutSeconds,omitempty"`
	// StopGraceSeconds is the time that requests in flight have to end when the process is stopped.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	// +kubebuilder:default=30
	StopGraceSeconds int32 `json:"stopGraceSeconds,omitempty"`
}

// The values of Listener.
const (
	ListenerOwned = "Owned"
	ListenerAny   = "Any"
)

// EngineEnv is an environment variable of an engine.
type EngineEnv struct {
	// Name of the environment variable.
	//
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_]*$`
	Name string `json:"name"`
	// Value of the environment variable.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=32768
	Value string `json:"value,omitempty"`
}
