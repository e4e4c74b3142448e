package v1alpha1

// EngineMemory describes the memory of accelerators that an engine needs when it starts. Penstock
// estimates it from the files of the model, and starts no server that cannot fit. Names of
// arguments have no dashes; - and _ are equal. Names in one list are names of the same argument.
type EngineMemory struct {
	// Utilization is the part of an accelerator's memory that the engine uses without
	// memoryArgument.
	//
	// +optional
	// +kubebuilder:validation:Pattern=`^(1|0\.[0-9]{1,3})$`
	// +kubebuilder:default="1"
	Utilization string `json:"utilization,omitempty"`
	// ContextArguments set the number of tokens for which the engine reserves its cache.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z][A-Za-z0-9._-]*$`
	// +listType=atomic
	ContextArguments []string `json:"contextArguments,omitempty"`
	// LeastContext is the number of tokens to which the engine reduces the model's own context if
	// it lacks memory and no argument sets the context. By default, it does not.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1073741824
	LeastContext int32 `json:"leastContext,omitempty"`
	// KeyTypeArguments set the type of the keys in the cache, such as fp8 or q8_0.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z][A-Za-z0-9._-]*$`
	// +listType=atomic
	KeyTypeArguments []string `json:"keyTypeArguments,omitempty"`
	// ValueTypeArguments set the type of the values in the cache.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z][A-Za-z0-9._-]*$`
	// +listType=atomic
	ValueTypeArguments []string `json:"valueTypeArguments,omitempty"`
	// CacheType is the type of the cache without these arguments. Defaults to the type of the
	// weights.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=32
	CacheType string `json:"cacheType,omitempty"`
	// WeightTypeArguments set the type to which the engine converts weights, such as float32.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z][A-Za-z0-9._-]*$`
	// +listType=atomic
	WeightTypeArguments []string `json:"weightTypeArguments,omitempty"`
	// LayersArguments set the number of layers that the engine puts on accelerators. With them,
	// Penstock estimates memory only if the argument is all, or more than the model's layers: else
	// the engine may use the memory of the machine, too.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z][A-Za-z0-9._-]*$`
	// +listType=atomic
	LayersArguments []string `json:"layersArguments,omitempty"`
	// UnknownWith are arguments with which Penstock does not estimate memory.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z][A-Za-z0-9._-]*$`
	// +listType=atomic
	UnknownWith []string `json:"unknownWith,omitempty"`
	// UnknownWithEnv are beginnings of environment variables with which Penstock does not estimate
	// memory.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z_][A-Za-z0-9_]*$`
	// +listType=atomic
	UnknownWithEnv []string `json:"unknownWithEnv,omitempty"`
}
