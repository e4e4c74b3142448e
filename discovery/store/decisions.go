package store

import (
	"github.com/penstock-project/penstock/manifests/about"
	"github.com/penstock-project/penstock/manifests/endpointpicker"
	"github.com/penstock-project/penstock/manifests/inferenceapi"
	"github.com/penstock-project/penstock/manifests/inferenceapi/llmd"
	"github.com/penstock-project/penstock/manifests/v1alpha1"
)

// decisions lists, for each type in the tables, how pages show each field. A field that decisions
// does not list is hidden, and TestShow_EveryFieldIsDecided fails.
var decisions = byType(ofKubernetes, ofGateways, ofPenstock)

// ofPenstock decides which fields of Penstock's own kinds pages show. It omits parameters of
// plugins and additions to a bootstrap, because they may contain credentials for other services.
var ofPenstock = []decision{
	decide[inferenceapi.InferenceModel](object("Spec Status")),
	decide[inferenceapi.InferenceModelSpec](shown("ModelName Criticality TargetModels PoolRef")),
	decide[inferenceapi.TargetModel](shown("Name Weight")),
	decide[inferenceapi.ModelPoolRef](shown("Group Kind"), names("Name")),
	decide[inferenceapi.InferenceModelStatus](shown("Conditions")),
	decide[llmd.InferenceModelRewrite](object("Spec Status")),
	decide[llmd.InferenceModelRewriteSpec](shown("PoolRef Rules")),
	decide[llmd.PoolObjectReference](shown("Group Kind"), names("Name")),
	decide[llmd.InferenceModelRewriteRule](shown("Matches Targets")),
	decide[llmd.Match](shown("Model")),
	decide[llmd.ModelMatch](shown("Type Value")),
	decide[llmd.TargetModel](shown("Weight ModelRewrite")),
	decide[llmd.InferenceModelRewriteStatus](shown("Conditions")),
	decide[llmd.InferenceObjective](object("Spec Status")),
	decide[llmd.InferenceObjectiveSpec](shown("Priority PoolRef")),
	decide[llmd.InferenceObjectiveStatus](shown("Conditions")),
	decide[inferenceapi.InferencePoolImport](object("Spec Status")),
	decide[inferenceapi.InferencePoolImportSpec](),
	decide[inferenceapi.InferencePoolImportStatus](shown("Controllers Clusters Conditions ObservedGeneration")),
	decide[inferenceapi.ImportedCluster](shown("RoutingMode TargetPortNumber TargetPorts EndpointPicker Endpoints "+
		"PodCIDRs Parents Weight FailureMode AppProtocol Region Zone Local Conditions"), names("Name")),
	decide[inferenceapi.Port](shown("Number Name AppProtocol")),
	decide[inferenceapi.EndpointPickerImport](shown("Name Service Pool Peer Health Metrics")),
	decide[inferenceapi.ServiceImport](shown("Type Addresses Ports")),
	decide[inferenceapi.EndpointImport](shown("Port SecretRef")),
	decide[inferenceapi.ImportedEndpoint](shown("Address Ports Draining")),
	decide[inferenceapi.ParentImport](shown("Service Hostname Peer Conditions"), names("Name Namespace")),
	decide[v1alpha1.ModelServers](object("Spec Status")),
	decide[v1alpha1.ModelServersSpec](shown("Servers")),
	decide[v1alpha1.ModelServer](shown("Address Ports Labels Draining")),
	decide[v1alpha1.ModelServersStatus](shown("Conditions ObservedGeneration")),
	decide[v1alpha1.Engine](object("Spec")),
	decide[v1alpha1.EngineSpec](shown("Versions")),
	decide[v1alpha1.EngineVersion](shown("Version SupportedTasks Metrics Devices Images Capabilities DeployTemplate"),
		sizes("ValuesSchema")),
	decide[v1alpha1.EngineDevices](shown("List Variable ParallelArguments MemoryArgument Memory")),
	decide[v1alpha1.EngineMemory](shown("Utilization ContextArguments LeastContext KeyTypeArguments " +
		"ValueTypeArguments CacheType WeightTypeArguments LayersArguments UnknownWith UnknownWithEnv")),
	decide[v1alpha1.EngineCapabilities](shown("LoRA MetricsExport")),
	decide[v1alpha1.MetricsExport](shown("Path")),
	decide[v1alpha1.DeployTemplate](shown("Process"), sizes("Kubernetes")),
	decide[v1alpha1.ProcessTemplate](shown("Program Path Install Args Tasks Env Ready Listener " +
		"StartupTimeoutSeconds StopGraceSeconds")),
	decide[v1alpha1.AdapterTemplate](shown("Args Each")),
	decide[v1alpha1.EngineEnv](shown("Name"), omit("Value")),
	decide[v1alpha1.ModelDeployment](object("Spec Status")),
	// Variables become arguments of an engine. An argument may be a credential.
	decide[v1alpha1.ModelDeploymentSpec](shown("Engine Model Replicas Idle Keep Strategy Resources Placement Env "+
		"Adapters Scheduler Access Cluster GatewayRefs Hostnames"), omit("Variables")),
	decide[v1alpha1.DeploymentEnv](shown("Name ValueFrom"), omit("Value")),
	decide[v1alpha1.DeploymentEnvSource](shown("SecretKeyRef")),
	decide[v1alpha1.SecretKey](shown("Key"), names("Name")),
	decide[v1alpha1.DeploymentAccess](shown("APIKeys JWT ByModel Usage Revoke"), omit("Nulls")),
	decide[v1alpha1.DeploymentScheduler](shown("Strategy CHWBL Session")),
	decide[v1alpha1.DeploymentAdapter](shown("Name Source")),
	decide[v1alpha1.AdapterSource](shown("Path Name Version File"), names("Registry")),
	decide[v1alpha1.DeploymentResources](shown("CPU Memory GPU Accelerator")),
	decide[v1alpha1.DeploymentPlacement](shown("Strategy")),
	decide[v1alpha1.DeploymentEngine](shown("Version"), names("Name")),
	decide[v1alpha1.DeploymentModel](shown("Name Version File Task ServedName"), names("Registry")),
	decide[v1alpha1.ModelRegistry](object("Spec Status")),
	decide[v1alpha1.ModelRegistryStatus](shown("Conditions ObservedGeneration")),
	// URL may contain a credential in its path.
	decide[v1alpha1.ModelRegistrySpec](shown("Type Path Credentials"), omit("URL")),
	decide[v1alpha1.RegistryCredentials](shown("SecretRef")),
	decide[v1alpha1.DeploymentGateway](shown("SectionName"), names("Namespace Name")),
	decide[v1alpha1.ModelDeploymentStatus](shown("Conditions ObservedGeneration")),
	decide[v1alpha1.PoolPolicy](object("Spec Status")),
	decide[v1alpha1.PoolPolicySpec](shown("TargetRef Picker Subset ExternalPicker Spill Remote Selection RetryOn " +
		"UpstreamCredential")),
	decide[v1alpha1.UpstreamCredential](shown("SecretRef Header")),
	decide[v1alpha1.PoolRef](shown("Group Kind"), names("Name Namespace")),
	decide[v1alpha1.PickerSpec](shown("Strategy Shadow Criticality TrustHeaders ShedAfter FlowControl Processor " +
		"CHWBL Session Plugins ConfigRef FailureMode Full Metrics TokenUsage ResponseAffinity KVEvents Fallbacks " +
		"HeadersTimeout Prefix Body")),
	decide[v1alpha1.FlowControlSpec](shown("Order MaxRequests MaxBytes TTLSeconds Saturation")),
	decide[v1alpha1.SaturationSpec](shown("Queue KVCachePercent")),
	decide[v1alpha1.ProcessorSpec](shown("Service Port Timeout Headers Route")),
	decide[v1alpha1.CHWBLSpec](shown("VirtualNodesPerReplica LoadFactorPercent MaxUserMessagesForCache")),
	decide[v1alpha1.SessionSpec](shown("TTLSeconds CookieName")),
	decide[v1alpha1.PluginsSpec](shown("Filters Scorers Choice")),
	decide[v1alpha1.FilterPlugin](shown("Type"), sizes("Parameters")),
	decide[v1alpha1.ScorerPlugin](shown("Type Weight"), sizes("Parameters")),
	decide[v1alpha1.ConfigRef](shown("Kind Key"), names("Name")),
	decide[v1alpha1.FullSpec](shown("Queue KVCachePercent InFlight")),
	decide[v1alpha1.MetricsSpec](shown("Engine Path Port MaxPageBytes LoadStatPort Queue Running KVCache")),
	decide[v1alpha1.KVEventsSpec](shown("Mode Port ReplayPort Render Topic")),
	decide[v1alpha1.RenderSpec](shown("TimeoutMilliseconds")),
	decide[v1alpha1.ExternalPickerSpec](shown("DestinationKey DestinationNamespace SubsetNamespace")),
	decide[v1alpha1.RemoteSpec](shown("PodCIDRs Addresses MaxGateways")),
	decide[v1alpha1.SelectionSpec](shown("Policy Order LocalMargin Affinity Within")),
	decide[v1alpha1.WithinSpec](shown("Clusters Regions")),
	decide[v1alpha1.PoolPolicyStatus](shown("Conditions ObservedGeneration")),
	// Hashes are omitted. A hash of 256 random bits is no secret, but a hash of a key that a user
	// chose may be.
	decide[v1alpha1.APIKey](shown("TypeMeta ObjectMeta Spec")),
	decide[v1alpha1.APIKeySpec](shown("Owner Groups Objective Models Pools Expires Disabled"), omit("Hashes")),
	decide[v1alpha1.KeyPool](shown("Kind"), names("Namespace Name")),
	decide[v1alpha1.AccessPolicy](shown("TypeMeta ObjectMeta Spec Status")),
	decide[v1alpha1.AccessPolicyStatus](shown("Ancestors Conditions ObservedGeneration Targets")),
	decide[v1alpha1.GatedTarget](shown("Kind SectionName Missing"), names("Name")),
	decide[v1alpha1.AccessPolicySpec](shown("TargetRefs APIKeys JWT Ungated Usage Revoke ByModel Except "+
		"Members"), omit("Nulls Closed Former")),
	decide[v1alpha1.AccessException](shown("Kind"), names("Namespace Name")),
	decide[v1alpha1.AccessTarget](shown("Group Kind SectionName"), names("Name")),
	decide[v1alpha1.AccessKeys](shown("Selector"), names("Namespaces")),
	// Inline may contain private keys by mistake, and URI a password.
	decide[v1alpha1.AccessJWT](shown("Issuer Audiences JWKS CACertificateRefs TokenSecretRef Claims")),
	decide[v1alpha1.AccessJWKS](part{origin, "URI"}, sizes("Inline")),
	decide[v1alpha1.AccessObject](names("Name")),
	decide[v1alpha1.AccessClaims](shown("Owner Groups Models Objective")),
	decide[endpointpicker.EndpointPickerConfig](object("Plugins SchedulingProfiles FeatureGates FlowControl "+
		"SaturationDetector"), sizes("DataLayer RequestHandler Parser")),
	decide[endpointpicker.Plugin](shown("Name Type"), sizes("Parameters")),
	decide[endpointpicker.SchedulingProfile](shown("Name Plugins")),
	decide[endpointpicker.SchedulingPlugin](shown("PluginRef Weight")),
	decide[endpointpicker.FlowControl](shown("MaxBytes MaxRequests DefaultRequestTTL NoEndpointRequestTTL " +
		"DefaultPriorityBand DefaultNegativePriorityBand PriorityBands UsageLimitPolicyPluginRef SaturationDetector " +
		"EnableEviction")),
	decide[endpointpicker.PriorityBand](shown("Priority MaxBytes MaxRequests FairnessPolicyRef OrderingPolicyRef " +
		"DefaultRequestTTL NoEndpointRequestTTL")),
	decide[endpointpicker.Ref](shown("PluginRef QueueDepthThreshold KVCacheUtilThreshold MetricsStalenessThreshold")),
	decide[v1alpha1.EnvoyFleet](object("Spec Status")),
	decide[v1alpha1.EnvoyFleetStatus](shown("Conditions ObservedGeneration")),
	decide[v1alpha1.EnvoyFleetSpec](shown("Mode Image Replicas Autoscaling Resources Concurrency DrainSeconds "+
		"Service Pod NetworkPolicy Clients External Routes"), sizes("Bootstrap")),
	decide[v1alpha1.FleetRoutes](shown("BudgetMilliseconds")),
	decide[v1alpha1.FleetAutoscaling](shown("MinReplicas MaxReplicas CPUPercent")),
	decide[v1alpha1.FleetService](shown("Type LoadBalancerClass ExternalTrafficPolicy"), annotations("Annotations")),
	decide[v1alpha1.FleetPod](shown("Labels NodeSelector Tolerations TopologySpreadConstraints PriorityClassName "+
		"ImagePullSecrets"), annotations("Annotations")),
	decide[v1alpha1.FleetNetworkPolicy](shown("Mode From")),
	decide[v1alpha1.FleetClients](shown("RequestTimeoutSeconds HTTP2Streams EscapedSlashes HeadersWithUnderscores " +
		"RequestIDs HTTP10 TrustedHops ProxyProtocol")),
	decide[v1alpha1.FleetExternalSpec](shown("ServiceAccounts Subjects Addresses")),
	decide[v1alpha1.ClusterSet](object("Spec Status")),
	decide[v1alpha1.ClusterSetSpec](shown("Imports CreateNamespaces PodCIDRs Members PeerListener Draining"),
		names("Cluster Region Zone")),
	decide[v1alpha1.ClusterSetMember](shown("Peer Kubeconfig ClusterProfile Draining Allow"), names("Name")),
	decide[v1alpha1.ClusterSetPeer](shown("Address Hub"), certified("Bundle")),
	decide[v1alpha1.ClusterSetKubeconfig](shown("File Context")),
	decide[v1alpha1.ClusterSetProfile](names("Namespace Name")),
	decide[v1alpha1.ClusterSetAllow](shown("PodCIDRs Addresses Cleartext Exports Endpoints Identities"),
		names("Namespaces Pools")),
	decide[v1alpha1.ClusterSetPeerListener](shown("Port Address")),
	decide[v1alpha1.ClusterSetStatus](shown("Members Conditions ObservedGeneration")),
	decide[v1alpha1.ClusterSetMemberStatus](shown("UID Epoch Sequence Started Draining"), names("Name"),
		certified("Bundle")),
	decide[about.ClusterProperty](object("Spec")),
	decide[about.ClusterPropertySpec](shown("Value")),
	decide[Host](object("Addresses Error")),
	decide[Learned](object("Endpoints")),
	decide[Offer](object("Import Cluster Allowed Pods Cleartext Local Since")),
	decide[Invalid](object("")),
	decide[Failback](object("Clusters")),
	decide[Dialect](object("Acknowledges Health Lost Frozen")),
	decide[Authority](object(""), certified("CA"), omit("Key")),
	decide[Membership](object("Set Cluster Region Zone PeerPort Members Names"), certified("Chain"), omit("Key")),
	decide[Member](shown("Name Identities"), certified("Bundle")),
	decide[Export](object("Members")),
	decide[AddressPolicy](object("Allowed Denied Loopback ExternalName Shared Own")),
	decide[ProcessorDefault](object("Route"), part{origin, "URL"}),
	decide[Occupant](object("Clusters Endpoints Lists")),
}
