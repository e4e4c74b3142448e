package endpointpicker

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/penstock-project/penstock/manifests/deepcopy"
)

// A document's apiVersion is Group/Version, Group/NextVersion (in llm-d's documentation) or
// FormerGroup/Version (before release 0.7). A folder accepts only Version.
const (
	Group       = "llm-d.ai"
	FormerGroup = "inference.networking.x-k8s.io"
	Version     = "v1alpha1"
	NextVersion = "v1"
	Kind        = "EndpointPickerConfig"
)

// EndpointPickerConfig configures how a picker selects an endpoint, in the format of llm-d's
// router. Penstock reads it as a named object in a folder, or from a ConfigMap.
type EndpointPickerConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Plugins that profiles refer to, at most 64.
	Plugins []Plugin `json:"plugins,omitempty"`
	// SchedulingProfiles select plugins. Without a profile, all filters, scorers and pickers of
	// Plugins are used, with weight 1.
	SchedulingProfiles []SchedulingProfile `json:"schedulingProfiles,omitempty"`

	// FeatureGates enables flowControl.
	FeatureGates []string `json:"featureGates,omitempty"`
	// FlowControl requires the feature gate flowControl. In older documents, SaturationDetector is
	// not part of FlowControl.
	FlowControl        *FlowControl `json:"flowControl,omitempty"`
	SaturationDetector *Ref         `json:"saturationDetector,omitempty"`

	// These settings have no effect in Penstock. A Warning states why.
	DataLayer      *runtime.RawExtension `json:"dataLayer,omitempty"`
	RequestHandler *runtime.RawExtension `json:"requestHandler,omitempty"`
	Parser         *runtime.RawExtension `json:"parser,omitempty"`
}

func (in *EndpointPickerConfig) DeepCopyObject() runtime.Object { return deepcopy.Of(in) }

// Plugin is an instance of a type of plugins.
type Plugin struct {
	// Name defaults to Type.
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
	// Weight of a scorer. Defaults to 1.
	Weight *float64 `json:"weight,omitempty"`
}
