package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Strategy names how a picker selects an endpoint.
//
// +kubebuilder:validation:Enum=load;round-robin;random;least-request;tree;chwbl;session;plugins
type Strategy string

// The strategies of Penstock's picker.
const (
	// StrategyLoad selects the endpoint with the least cost in seconds: to read the part of the
	// prompt that it has not cached, after the prompts that wait there.
	StrategyLoad Strategy = "load"
	// StrategyRoundRobin selects the endpoints in turn.
	StrategyRoundRobin Strategy = "round-robin"
	// StrategyRandom selects an endpoint at random.
	StrategyRandom Strategy = "random"
	// StrategyLeastRequest selects the endpoint with the fewest requests in flight from this
	// picker.
	StrategyLeastRequest Strategy = "least-request"
	// StrategyTree selects by the filter tree of the inference extension with InferenceModels:
	// criticality, queue, LoRA adapter, KV cache.
	StrategyTree Strategy = "tree"
	// StrategyCHWBL selects by consistent hashing with bounded loads: requests whose conversations
	// begin alike go to one endpoint, until it has too many.
	StrategyCHWBL Strategy = "chwbl"
	// StrategySession selects the endpoint that the request's session is at.
	StrategySession Strategy = "session"
	// StrategyPlugins selects by filters, scorers and a choice, which plugins or configRef list.
	StrategyPlugins Strategy = "plugins"
)

// Criticality of requests. Strategy "tree" sends Critical requests to endpoints with fewer than 50
// waiting requests, if there are any, and others to endpoints with at most 5 waiting requests and
// 80 % of the KV cache in use. Without such an endpoint it answers Sheddable requests 429, or
// spills them.
//
// +kubebuilder:validation:Enum=Critical;Standard;Sheddable
type Criticality string

// The criticalities.
const (
	Critical  Criticality = "Critical"
	Standard  Criticality = "Standard"
	Sheddable Criticality = "Sheddable"
)

// The values of PickerSpec.HeadersTimeout.
const (
	HeadersTimeoutLearned = "Learned"
	HeadersTimeoutNone    = "None"
)

// PickerSpec configures Penstock's own picker.
//
// +kubebuilder:validation:XValidation:rule="!has(self.strategy) || self.strategy != 'chwbl' || !has(self.body) || self.body != 'None'",message="strategy chwbl hashes request bodies: remove body, or use another strategy"
// +kubebuilder:validation:XValidation:rule="!has(self.strategy) || self.strategy != 'plugins' || has(self.plugins) != has(self.configRef)",message="strategy plugins needs either plugins or configRef: write one of them"
// +kubebuilder:validation:XValidation:rule="!has(self.plugins) && !has(self.configRef) || has(self.strategy) && self.strategy == 'plugins'",message="plugins and configRef are for strategy plugins: write strategy: plugins, or remove them"
type PickerSpec struct {
	// Strategy by which the picker selects an endpoint: load, the least cost in seconds
	// (docs/pick-strategies.md has its parts); round-robin, in turn; random; least-request, the
	// fewest requests in flight; tree, by criticality, queue, LoRA adapter and KV cache; chwbl,
	// consistent hashing of the beginning of a conversation; session, the endpoint that the
	// request's session is at; or plugins, by filters and scorers that plugins or configRef list.
	//
	// +optional
	// +kubebuilder:default=load
	Strategy Strategy `json:"strategy,omitempty"`
	// Shadow is a strategy that judges each pick without effect, by what strategy reads of
	// requests: load, round-robin, random, least-request or tree. The metrics
	// penstock_picker_shadow_picks_total and penstock_picker_shadow_regret_total show how often it
	// would have picked another endpoint, and how much better by its own costs.
	//
	// +optional
	// +kubebuilder:validation:Enum=load;round-robin;random;least-request;tree
	// not Strategy: with the type's values too, the schema has two lists, and validators explain
	// neither
	Shadow string `json:"shadow,omitempty"`
	// Criticality of the pool's requests. Strategy tree reads it; strategy load does so for
	// requests with a latency objective; and shedAfter does.
	//
	// +optional
	// +kubebuilder:default=Standard
	Criticality Criticality `json:"criticality,omitempty"`
	// TrustHeaders lets clients decide about their requests by headers: x-llm-d-inference-objective
	// (or x-gateway-inference-objective) names an InferenceObjective, which has a priority; and
	// flow control reads the fairness ID of x-llm-d-inference-fairness-id (or
	// x-gateway-inference-fairness-id) and the deadline of x-llm-d-slo-ttft-ms. Without it these
	// have no effect there, because any client can send them. Set it where something before the
	// gateway sets or removes them.
	//
	// +optional
	TrustHeaders bool `json:"trustHeaders,omitempty"`
	// ShedAfter answers a request of criticality Sheddable 429, or spills it, if the time to its
	// first token at the endpoint that the strategy selects is predicted to be longer, such as
	// 1500ms. Without it none is shed for its wait.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m))+$`
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1ms') && duration(self) <= duration('10m')",message="shedAfter must be 1ms to 10m, such as 1500ms"
	ShedAfter *metav1.Duration `json:"shedAfter,omitempty"`
	// FlowControl holds requests back while the pool is saturated, and decides which of them goes
	// next: those of a higher priority first, and among these each fairness ID in turn. Without it
	// all requests go to the model servers at once, whose queues know neither. A request that can
	// spill does not wait: it spills while the pool is saturated.
	//
	// +optional
	FlowControl *FlowControlSpec `json:"flowControl,omitempty"`
	// Processor is a service that prepares requests before they are picked for: it tokenizes their
	// prompts, and may choose their endpoints. It is the one of the Dynamo proposal (POST
	// /process). The bodies of all requests are read then, whatever the strategy. While it does not
	// answer, requests go on without it. After five failures in a row it is left out for 10s;
	// failures with a body above 1MiB do not count, so that no client can have it left out for all.
	// Defaults to the environment's EXTERNAL_LLM_PROCESSOR_ENDPOINT, else none.
	//
	// +optional
	Processor *ProcessorSpec `json:"processor,omitempty"`
	// CHWBL configures the strategy chwbl.
	//
	// +optional
	CHWBL *CHWBLSpec `json:"chwbl,omitempty"`
	// Session configures the strategy session, and for an InferencePoolImport selection.affinity:
	// Session.
	//
	// +optional
	Session *SessionSpec `json:"session,omitempty"`
	// Plugins lists the filters and scorers of the strategy plugins.
	//
	// +optional
	Plugins *PluginsSpec `json:"plugins,omitempty"`
	// ConfigRef names an EndpointPickerConfig, which lists the filters, scorers and picker of the
	// strategy plugins in the form of llm-d's router. While the document is missing or invalid, the
	// last valid one stays in force, and after a restart the strategy load. For an
	// InferencePoolImport it names a document whose plugins choose among clusters
	// (multicluster-queue-scorer and others), in place of selection.policy and selection.affinity.
	//
	// +optional
	ConfigRef *ConfigRef `json:"configRef,omitempty"`
	// FailureMode decides where a request goes when no picker answers: to any endpoint (FailOpen),
	// or to the spill targets, else 503 (FailClose). For a pool without endpointPickerRef, which
	// has its own failureMode. Defaults to FailOpen, and to FailClose for a pool whose picker
	// replaces models, or has a processor: servers would get bodies that are not for them.
	//
	// +optional
	// +kubebuilder:validation:Enum=FailOpen;FailClose
	FailureMode string `json:"failureMode,omitempty"`
	// Full sets when an endpoint is full and gets no further requests. If every endpoint is full,
	// requests spill, or are answered 429. Without it an endpoint is never full.
	//
	// +optional
	Full *FullSpec `json:"full,omitempty"`
	// Metrics configures where model servers expose their load. Defaults to vLLM's series on the
	// serving port at /metrics.
	//
	// +optional
	Metrics *MetricsSpec `json:"metrics,omitempty"`
	// TokenUsage has Envoy read how many tokens a response has by its own account ("usage", also of
	// streams that have it), for penstock_picker_model_output_tokens_total. It costs Envoy some 50
	// us a response. Envoy marks its filter for it as work in progress.
	//
	// +optional
	// +kubebuilder:default=false
	TokenUsage bool `json:"tokenUsage,omitempty"`
	// ResponseAffinity sends a request that names a response of the Responses API to the server
	// that keeps it: by previous_response_id, or by its path, /v1/responses/ID. It is for servers
	// that keep responses in memory (vLLM with VLLM_ENABLE_RESPONSES_API_STORE=1). Envoy reads the
	// ID of each response. The picker keeps 65,536 of a pool for an hour; a request for any other
	// ID is picked for freely after 100 ms. The picker reads the bodies of requests, as with
	// prefix. For an InferencePoolImport it has an effect with selection.policy LeastLoad and
	// Latency: the request goes to the cluster that keeps the response.
	//
	// +optional
	// +kubebuilder:default=false
	ResponseAffinity bool `json:"responseAffinity,omitempty"`
	// KVEvents subscribes to the KV events of the model servers (vLLM's --kv-events-config, and
	// SGLang's): where they are read, the strategy load compares prompts with what each server
	// reports to have cached, in place of what was sent there. That takes the prompt's token IDs.
	// Without it, and for other requests and servers, it goes by what was sent.
	//
	// +optional
	KVEvents *KVEventsSpec `json:"kvEvents,omitempty"`
	// Fallbacks is the number of further endpoints in a pick, on which Envoy retries in order what
	// no server has begun to answer: such a request may run twice. With 0 it is sent once. Defaults
	// to 2; for `penstock picker` to 0, because a gateway may read one address alone.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=8
	Fallbacks *int32 `json:"fallbacks,omitempty"`
	// HeadersTimeout is when a stream whose server has sent no headers is sent to the next server
	// of the pick, too: Learned, after four times the 99th percentile of the server's own headers
	// (1s to 20s), for servers that send headers before they read the prompt; or None. The server
	// that sends headers first serves the request. Defaults to Learned; for `penstock picker` to
	// None, because a gateway may not obey it.
	//
	// +optional
	// +kubebuilder:validation:Enum=Learned;None
	HeadersTimeout string `json:"headersTimeout,omitempty"`
	// Prefix lets the strategies load and plugins read prompts, so that a request goes where the
	// beginning of its prompt is cached. Envoy holds the body of such a request, of up to 32 MiB,
	// until the picker has it; a request of an API whose prompts are unknown is picked for without
	// its body. Defaults to true with the strategy load, and with plugins if prefix-cache-scorer or
	// lora-affinity-scorer is one of them; other strategies read no prompts. If false, a request is
	// picked for when its headers have arrived, by load alone.
	//
	// +optional
	Prefix *bool `json:"prefix,omitempty"`
	// Body decides whether the picker gets every request's body: None or Buffered. The default is
	// Buffered for the strategy tree, which without the body reads the model's name only on
	// Gateways that route by it, and for chwbl, and None for the others. With Buffered, traces and
	// debug pages have the model's name whatever the strategy and the API. Streams have no body for
	// the picker: upgrades, multipart uploads, and gRPC.
	//
	// +optional
	// +kubebuilder:validation:Enum=None;Buffered
	Body string `json:"body,omitempty"`
}

// ProcessorSpec configures the service that prepares requests. Of its answer, token_key becomes the
// header x-req-tokens-key, and token_value the member "token_ids" of the body. It is sent the body
// as the client sent it, in cleartext unless a BackendTLSPolicy for the Service states how to
// verify it.
type ProcessorSpec struct {
	// Service in the policy's namespace.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Service string `json:"service"`
	// Port of the Service.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:default=8080
	Port *int32 `json:"port,omitempty"`
	// Timeout is how long a request waits for the answer, such as 500ms. After five failures in a
	// row the service is not asked for 10 s.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m))+$`
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1ms') && duration(self) <= duration('2m')",message="timeout must be 1ms to 2m, such as 500ms"
	// +kubebuilder:default="1s"
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// Headers of requests that the service receives, in lower case, beside x-request-id.
	//
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9!#$%&'*+.^_|~-]+$`
	// +kubebuilder:validation:XValidation:rule="!self.exists(h, h in ['authorization', 'proxy-authorization', 'x-api-key', 'api-key', 'cookie', 'set-cookie'])",message="the service receives no credentials: remove authorization, proxy-authorization, x-api-key, api-key, cookie and set-cookie"
	// +listType=set
	Headers []string `json:"headers,omitempty"`
	// Route has the service choose the endpoint of each request, whose body it is sent with
	// "route": true. A request decides otherwise by a member "route" of its body, true or false;
	// any other value decides nothing. The model server does not get the member. A worker_address
	// that is no endpoint of the pool, or outside of the request's subset, has no effect. Defaults
	// to the environment's USE_EXTERNAL_LLM_ROUTER, else false.
	//
	// +optional
	Route *bool `json:"route,omitempty"`
}

// CHWBLSpec configures the strategy chwbl: consistent hashing with bounded loads.
type CHWBLSpec struct {
	// VirtualNodesPerReplica is how many places each endpoint has on the hash ring. More of them
	// spread requests more evenly.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=100
	VirtualNodesPerReplica *int32 `json:"virtualNodesPerReplica,omitempty"`
	// LoadFactorPercent is how many requests an endpoint may have in flight, in percent of the mean
	// of all endpoints. A request whose endpoint would have more goes to the next one on the ring.
	//
	// +optional
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=10000
	// +kubebuilder:default=125
	LoadFactorPercent *int32 `json:"loadFactorPercent,omitempty"`
	// MaxUserMessagesForCache is how many user messages of a chat completion are hashed, after the
	// last system message before the last of them. Of any other request the whole body is hashed.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=2
	MaxUserMessagesForCache *int32 `json:"maxUserMessagesForCache,omitempty"`
}

// FlowControlSpec configures flow control. A pool's saturation is the mean of its servers', and a
// server's is the larger one of its waiting requests / saturation.queue and its KV cache's use /
// saturation.kvCachePercent. At 1 the pool takes no further request. A request of criticality
// Sheddable is sent only to servers without waiting requests.
type FlowControlSpec struct {
	// Order is which of the requests with one fairness ID goes first: FCFS, the one that waits
	// longest, or Deadline, the one whose deadline for the first token is nearest.
	//
	// +optional
	// +kubebuilder:validation:Enum=FCFS;Deadline
	// +kubebuilder:default=FCFS
	Order string `json:"order,omitempty"`
	// MaxRequests is how many requests of each priority wait. Further ones are answered 429; if
	// another fairness ID has more requests than theirs, one of it is in their place.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:default=5000
	MaxRequests *int32 `json:"maxRequests,omitempty"`
	// MaxBytes is how many bytes their bodies may have, by content-length.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:default=1000000000
	MaxBytes *int64 `json:"maxBytes,omitempty"`
	// TTLSeconds is how long a request waits before it is answered 429. While the pool has no
	// endpoint it waits for 10 s at most, and is answered 503.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=280
	// +kubebuilder:default=60
	TTLSeconds *int32 `json:"ttlSeconds,omitempty"`
	// Saturation is when a model server takes no more.
	//
	// +optional
	Saturation SaturationSpec `json:"saturation,omitzero"`
}

// SaturationSpec is when a model server is saturated.
type SaturationSpec struct {
	// Queue is the number of waiting requests.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +kubebuilder:default=5
	Queue *int32 `json:"queue,omitempty"`
	// KVCachePercent is the use of the KV cache in percent.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=80
	KVCachePercent *int32 `json:"kvCachePercent,omitempty"`
}

// SessionSpec configures the sessions of the strategy session, and of selection.affinity. A
// request's session is known by the header x-session-token, which the picker sets in each response
// and which a client sends back, else by the header x-session-id, else by a cookie, whose values a
// client chooses.
type SessionSpec struct {
	// TTLSeconds is how long a session stays at its endpoint, or in its cluster, after its last
	// request.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:default=300
	TTLSeconds *int32 `json:"ttlSeconds,omitempty"`
	// CookieName is the cookie whose value is the ID of the session.
	//
	// +optional
	// +kubebuilder:default=session-id
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[!#$%&'*+.^_|~0-9A-Za-z-]+$`
	CookieName string `json:"cookieName,omitempty"`
}

// FullSpec holds thresholds. An endpoint that reaches one of them is full.
type FullSpec struct {
	// Queue is the number of waiting requests.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	Queue *int32 `json:"queue,omitempty"`
	// KVCachePercent is the usage of the KV cache in percent.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	KVCachePercent *int32 `json:"kvCachePercent,omitempty"`
	// InFlight is the number of requests in flight, of all Gateways and all processes of Penstock.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	InFlight *int32 `json:"inFlight,omitempty"`
}

// MetricsSpec configures where and under which names model servers expose their load.
type MetricsSpec struct {
	// Engine decides how the series are named, of pods without the label llm-d.ai/engine-type or
	// inference.networking.k8s.io/engine-type, which have the same values. Defaults to vllm.
	//
	// +optional
	// +kubebuilder:validation:Enum=vllm;sglang;trtllm-serve;triton-tensorrt-llm;llamacpp
	Engine string `json:"engine,omitempty"`
	// Path of the metrics page. Defaults to /metrics, of trtllm-serve to /prometheus/metrics.
	//
	// +optional
	// +kubebuilder:validation:Pattern=`^/`
	Path string `json:"path,omitempty"`
	// Port of the metrics page. Defaults to the endpoint's own port, of triton-tensorrt-llm to
	// 8002.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`
	// MaxPageBytes is the largest metrics page that is read. A larger page is an error, and its
	// endpoint counts as one without metrics.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=8388608
	// +kubebuilder:default=1048576
	MaxPageBytes *int32 `json:"maxPageBytes,omitempty"`
	// LoadStatPort is where SGLang publishes its load (--load-publish-endpoint, since 0.5.19: with
	// "auto" the port after those of its KV events, which is 5558 for 5557). If a pod has several
	// model servers, the second one in the order of their serving ports publishes at the next port,
	// and so on. While loads arrive, metrics pages are not read. Without it, only metrics pages
	// are.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	LoadStatPort *int32 `json:"loadStatPort,omitempty"`
	// Queue is the name of the series with the number of waiting requests, in place of the
	// engine's. With labels, as NAME{LABEL=VALUE}, only lines that have them count; so for running
	// and kvCache.
	//
	// +optional
	// +kubebuilder:validation:Pattern=`^([^\s{}",=]+\s*(\{\s*([a-zA-Z_][a-zA-Z0-9_]*\s*=\s*("[^",]*"\s*|[^",{}=]*)(,\s*[a-zA-Z_][a-zA-Z0-9_]*\s*=\s*("[^",]*"\s*|[^",{}=]*))*,?\s*)?\})?)?$`
	Queue string `json:"queue,omitempty"`
	// Running is the name of the series with the number of running requests.
	//
	// +optional
	// +kubebuilder:validation:Pattern=`^([^\s{}",=]+\s*(\{\s*([a-zA-Z_][a-zA-Z0-9_]*\s*=\s*("[^",]*"\s*|[^",{}=]*)(,\s*[a-zA-Z_][a-zA-Z0-9_]*\s*=\s*("[^",]*"\s*|[^",{}=]*))*,?\s*)?\})?)?$`
	Running string `json:"running,omitempty"`
	// KVCache is the name of the series with the KV cache's usage, 0 to 1.
	//
	// +optional
	// +kubebuilder:validation:Pattern=`^([^\s{}",=]+\s*(\{\s*([a-zA-Z_][a-zA-Z0-9_]*\s*=\s*("[^",]*"\s*|[^",{}=]*)(,\s*[a-zA-Z_][a-zA-Z0-9_]*\s*=\s*("[^",]*"\s*|[^",{}=]*))*,?\s*)?\})?)?$`
	KVCache string `json:"kvCache,omitempty"`
}

// KVEventsSpec configures where model servers publish their KV events: at a ZeroMQ PUB socket over
// TCP.
//
// +kubebuilder:validation:XValidation:rule="!has(self.port) || !has(self.mode) || self.mode == 'Dial'",message="port is of mode Dial; in mode Listen the model servers connect to the address of --picker-kv-events"
type KVEventsSpec struct {
	// Mode is Dial if the model servers listen and Penstock connects to each of them, or Listen if
	// the model servers connect to Penstock, at the address of --picker-kv-events. A server that
	// connects is recognized by its IP address. If several have the same one, the topic must name
	// the server, as kv@ADDRESS:PORT@MODEL or kv@POD@MODEL.
	//
	// +optional
	// +kubebuilder:validation:Enum=Dial;Listen
	// +kubebuilder:default=Dial
	Mode string `json:"mode,omitempty"`
	// Port at which each model server publishes. If a pod has several model servers, the second one
	// in the order of their serving ports publishes at the next port, and so on, as vLLM's
	// data-parallel ranks do. Defaults to 5557.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`
	// ReplayPort is where each model server sends lost events again, counted like port. Without it,
	// Penstock drops what a server has reported when an event is lost.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	ReplayPort *int32 `json:"replayPort,omitempty"`
	// Render has the token IDs of prompts that are text fetched from the model servers, so that
	// chat completions and completions are compared with events, too: vLLM's
	// /v1/chat/completions/render and /v1/completions/render. A pick waits for it. Without it, and
	// for prompts of more than 512 KiB, such requests go by what was sent to each server.
	//
	// +optional
	Render *RenderSpec `json:"render,omitempty"`
	// Topic is the beginning of the topics to read in mode Dial. The default is all of them.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Topic string `json:"topic,omitempty"`
}

// RenderSpec configures how the token IDs of prompts are fetched.
type RenderSpec struct {
	// TimeoutMilliseconds is how long a pick waits for the token IDs at most.
	//
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=500
	// +kubebuilder:default=20
	TimeoutMilliseconds *int32 `json:"timeoutMilliseconds,omitempty"`
}
