package endpointpicker

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Group, Kind and Version of the document, the group that releases before 0.7 used, and the version
// that llm-d's documentation writes now; a folder takes the documents of Version as objects.
const (
	Group       = "llm-d.ai"
	FormerGroup = "inference.networking.x-k8s.io"
	Version     = "v1alpha1"
	NextVersion = "v1"
	Kind        = "EndpointPickerConfig"
)

// EndpointPickerConfig configures how a picker selects an endpoint. llm-d's router reads it from a
// file; here it is a document of a folder, which has a name, or the text of a ConfigMap.
//
// +kubebuilder:object:root=true
type EndpointPickerConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Plugins that profiles refer to, 64 at most.
	Plugins []Plugin `json:"plugins,omitempty"`
	// SchedulingProfiles: at most one. Without one, all filters, scorers and pickers of Plugins are
	// used, with weight 1.
	SchedulingProfiles []SchedulingProfile `json:"schedulingProfiles,omitempty"`

	// FeatureGates: flowControl, or nothing.
	FeatureGates []string `json:"featureGates,omitempty"`
	// FlowControl has an effect with the feature gate flowControl. SaturationDetector is its own in
	// older documents.
	FlowControl        *FlowControl `json:"flowControl,omitempty"`
	SaturationDetector *Ref         `json:"saturationDetector,omitempty"`

	// Parts of llm-d's router that are not configured so here. Each has no effect, and a warning
	// states why.
	DataLayer      *runtime.RawExtension `json:"dataLayer,omitempty"`
	RequestHandler *runtime.RawExtension `json:"requestHandler,omitempty"`
	Parser         *runtime.RawExtension `json:"parser,omitempty"`
}

// Plugin is an instance of a type of plugins.
type Plugin struct {
	// Name by which profiles refer to it; "" is its Type.
	Name       string                `json:"name,omitempty"`
	Type       string                `json:"type,omitempty"`
	Parameters *runtime.RawExtension `json:"parameters,omitempty"`
}

// SchedulingProfile selects plugins.
type SchedulingProfile struct {
	Name    string             `json:"name,omitempty"`
	Plugins []SchedulingPlugin `json:"plugins,omitempty"`
}

// SchedulingPlugin refers to a plugin.
type SchedulingPlugin struct {
	PluginRef string `json:"pluginRef,omitempty"`
	// Weight of a scorer, 0 or more; default 1.
	Weight *float64 `json:"weight,omitempty"`
}
