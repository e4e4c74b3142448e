package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Strategy selects how a picker chooses an endpoint.
//
// +kubebuilder:validation:Enum=load;round-robin;random;least-request;tree;chwbl;session;plugins
type Strategy string

const (
	// StrategyLoad selects the endpoint with the lowest cost in seconds: the wait for queued
	// prompts, then reading the uncached part of the prompt.
	StrategyLoad Strategy = "load"
	// StrategyRoundRobin selects the endpoints in turn.
	StrategyRoundRobin Strategy = "round-robin"
	// StrategyRandom selects an endpoint at random.
	StrategyRandom Strategy = "random"
	// StrategyLeastRequest selects the endpoint with the fewest requests in flight from this
	// picker.
	StrategyLeastRequest Strategy = "least-request"
	// StrategyTree selects with the filter tree of the inference extension's releases that had
	// InferenceModels: criticality, queue, LoRA adapter, KV cache.
	StrategyTree Strategy = "tree"
	// StrategyCHWBL selects by consistent hashing with bounded loads. Requests with the same
	// beginning of a conversation go to one endpoint until it reaches its bound.
	StrategyCHWBL Strategy = "chwbl"
	// StrategySession selects the endpoint of the request's session.
	StrategySession Strategy = "session"
	// StrategyPlugins selects with the filters, scorers and choice in the fields plugins or
	// configRef.
	StrategyPlugins Strategy = "plugins"
)

// Criticality of requests; see PickerSpec.
//
// +kubebuilder:validation:Enum=Critical;Standard;Sheddable
type Criticality string

const (
	Critical  Criticality = "Critical"
	Standard  Criticality = "Standard"
	Sheddable Criticality = "Sheddable"
)

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
	// Strategy by which the picker selects an endpoint. load selects the least cost in seconds
	// (docs/pick-strategies.md has its parts). round-robin selects in turn. random selects at
	// random. least-request selects the fewest requests in flight. tree selects by criticality,
	// queue, LoRA adapter and KV cache. chwbl hashes the beginning of a conversation consistently.
	// session selects the endpoint of the request's session. plugins selects by the filters and
	// scorers in the fields plugins or configRef.
	//
	// +kubebuilder:default=load
	Strategy Strategy `json:"strategy,omitempty"`
	// Shadow is not of type Strategy, because a second enum would come from the type.

	// Shadow is a strategy that evaluates each pick without any effect: load, round-robin, random,
	// least-request or tree. It reads the same parts of requests as the field strategy does. The
	// metrics penstock_picker_shadow_picks_total and penstock_picker_shadow_regret_total report how
	// often it would have picked another endpoint, and how much lower its own cost would have been.
	//
	// +kubebuilder:validation:Enum=load;round-robin;random;least-request;tree
	Shadow string `json:"shadow,omitempty"`
	// Criticality of the pool's requests, for strategy tree, for shedAfter, and for strategy load
	// if a request has a latency objective. Strategy tree sends Critical requests to endpoints with
	// fewer than 50 waiting requests, and other requests to endpoints with at most 5 waiting
	// requests and 80 % of the KV cache in use, if there are any. If there is no such endpoint,
	// Sheddable requests are answered with 429, or spill.
	//
	// +kubebuilder:default=Standard
	Criticality Criticality `json:"criticality,omitempty"`
	// TrustHeaders enables request headers that affect priority. x-llm-d-inference-objective (or
	// x-gateway-inference-objective) names an InferenceObjective, which has a priority. For flow
	// control, x-llm-d-inference-fairness-id (or x-gateway-inference-fairness-id) is the fairness
	// ID, and x-llm-d-slo-ttft-ms is the deadline. If false, these headers have no effect, because
	// any client can send them. Enable it only if a component in front of the gateway sets or
	// removes them.
	TrustHeaders bool `json:"trustHeaders,omitempty"`
	// ShedAfter is the maximum predicted time to the first token for requests of criticality
	// Sheddable, such as 1500ms. If the prediction for the selected endpoint is longer, the request
	// is answered with 429, or spills. By default no request is shed because of its wait.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m))+$`
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1ms') && duration(self) <= duration('10m')",message="shedAfter must be 1ms to 10m, such as 1500ms"
	ShedAfter *metav1.Duration `json:"shedAfter,omitempty"`
	// FlowControl queues requests while the pool is saturated, and orders them: higher priorities
	// first, and within a priority each fairness ID in turn. By default all requests go to the
	// model servers at once, whose queues ignore priorities and fairness IDs. A request that can
	// spill does not wait: it spills while the pool is saturated.
	FlowControl *FlowControlSpec `json:"flowControl,omitempty"`
	// Processor is a service that prepares requests before the pick, as in the Dynamo proposal
	// (POST /process): it tokenizes prompts and may choose endpoints. The bodies of all requests
	// are then read with any strategy. Requests proceed without the processor while it does not
	// answer. After five consecutive failures it is skipped for 10s. Failures with a body above
	// 1MiB do not count, so that no client can disable it for others. Defaults to the environment
	// variable EXTERNAL_LLM_PROCESSOR_ENDPOINT, else to no processor.
	Processor *ProcessorSpec `json:"processor,omitempty"`
	// CHWBL configures strategy chwbl.
	CHWBL *CHWBLSpec `json:"chwbl,omitempty"`
	// Session configures strategy session. For an InferencePoolImport, it configures
	// selection.affinity Session.
	Session *SessionSpec `json:"session,omitempty"`
	// Plugins lists the filters and scorers of strategy plugins.
	Plugins *PluginsSpec `json:"plugins,omitempty"`
	// ConfigRef names an EndpointPickerConfig, which lists the filters, scorers and picker of
	// strategy plugins in the format of llm-d's router. While the document is missing or invalid,
	// the last valid document stays in force; after a restart, strategy load is used. For an
	// InferencePoolImport, it names a document whose plugins choose among clusters (such as
	// multicluster-queue-scorer) instead of selection.policy and selection.affinity.
	ConfigRef *ConfigRef `json:"configRef,omitempty"`
	// FailureMode selects where a request goes when no picker answers. FailOpen sends it to any
	// endpoint. FailClose sends it to the spill targets; without spill targets it is answered with
	// 503. A pool with endpointPickerRef has its own failureMode instead. Defaults to FailOpen, but
	// to FailClose if the picker replaces model names or has a processor, because servers would
	// otherwise receive unmodified bodies.
	//
	// +kubebuilder:validation:Enum=FailOpen;FailClose
	FailureMode string `json:"failureMode,omitempty"`
	// Full sets when an endpoint is full and takes no further requests. If every endpoint is full,
	// requests spill, or are answered with 429. By default an endpoint is never full.
	Full *FullSpec `json:"full,omitempty"`
	// Metrics configures where model servers expose their load. Defaults to vLLM's series at
	// /metrics on the serving port.
	Metrics *MetricsSpec `json:"metrics,omitempty"`
	// TokenUsage makes Envoy read the token count that a response reports in "usage", for the
	// metric penstock_picker_model_output_tokens_total. It costs Envoy about 50 us per response.
	// Envoy marks the filter for it as work in progress.
	//
	// +kubebuilder:default=false
	TokenUsage bool `json:"tokenUsage,omitempty"`
	// ResponseAffinity sends a request that names a response of the Responses API (in
	// previous_response_id, or in the path /v1/responses/ID) to the server that stores the
	// response. Use it with servers that store responses in memory (vLLM with
	// VLLM_ENABLE_RESPONSES_API_STORE=1). Envoy reads the ID of each response, and the picker keeps
	// up to 65,536 IDs of a pool for an hour. A request for an unknown ID is picked without
	// affinity after 100 ms. The picker reads request bodies, as with the field prefix. For an
	// InferencePoolImport it applies with selection.policy LeastLoad and Latency: the request goes
	// to the cluster that stores the response.
	//
	// +kubebuilder:default=false
	ResponseAffinity bool `json:"responseAffinity,omitempty"`
	// KVEvents subscribes to the KV events of the model servers (vLLM's --kv-events-config, and
	// SGLang's). For a prompt whose token IDs are known, strategy load then matches the prompt with
	// the blocks that each server reports as cached. Otherwise it matches the prompt with the
	// prompts that were sent to each server.
	KVEvents *KVEventsSpec `json:"kvEvents,omitempty"`
	// Fallbacks is the number of additional endpoints in a pick, on which Envoy retries in order.
	// Only requests that no server has begun to answer are retried; a retried request may run
	// twice. 0 disables retries. Defaults to 2, and to 0 in `penstock picker`, because a gateway
	// may read only one address.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=8
	Fallbacks *int32 `json:"fallbacks,omitempty"`
	// HeadersTimeout selects when a stream without response headers is also sent to the next server
	// of the pick: Learned or None. Learned waits four times the 99th percentile of the server's
	// own time to headers (1s to 20s), for servers that send headers before they read the prompt.
	// The first server that sends headers serves the request. Defaults to Learned, and to None in
	// `penstock picker`, because a gateway may not support it.
	//
	// +kubebuilder:validation:Enum=Learned;None
	HeadersTimeout string `json:"headersTimeout,omitempty"`
	// Prefix lets strategies load and plugins read prompts, so that a request goes to a server that
	// has cached the beginning of its prompt. Envoy holds the body of such a request, up to 32 MiB,
	// until the picker has it. A request of an API with an unknown prompt format is picked without
	// its body. Defaults to true for strategy load, and for plugins with prefix-cache-scorer or
	// lora-affinity-scorer; other strategies read no prompts. If false, a request is picked when
	// its headers arrive, by load only.
	Prefix *bool `json:"prefix,omitempty"`
	// Body selects whether the picker receives the body of every request: None or Buffered.
	// Defaults to Buffered for strategies tree and chwbl, else None. Without the body, tree knows
	// the model's name only on Gateways that route by the model. With Buffered, traces and debug
	// pages have the model's name with any strategy and API. Upgrades, multipart uploads and gRPC
	// requests are never buffered.
	//
	// +kubebuilder:validation:Enum=None;Buffered
	Body string `json:"body,omitempty"`
}

// ProcessorSpec configures the service that prepares requests. The service receives each body as
// the client sent it, in cleartext unless a BackendTLSPolicy applies. In the service's response,
// token_key becomes the header x-req-tokens-key, and token_value the member "token_ids" of the
// body.
type ProcessorSpec struct {
	// Service in the policy's namespace.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Service string `json:"service"`
	// Port of the Service.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +kubebuilder:default=8080
	Port *int32 `json:"port,omitempty"`
	// Timeout is how long a request waits for the response, such as 500ms. After five consecutive
	// failures the service is skipped for 10 s.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m))+$`
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1ms') && duration(self) <= duration('2m')",message="timeout must be 1ms to 2m, such as 500ms"
	// +kubebuilder:default="1s"
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// Headers are the names, in lower case, of request headers that are sent to the service in
	// addition to x-request-id.
	//
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=128
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9!#$%&'*+.^_|~-]+$`
	// +kubebuilder:validation:XValidation:rule="!self.exists(h, h in ['authorization', 'proxy-authorization', 'x-api-key', 'api-key', 'cookie', 'set-cookie'])",message="the service receives no credentials: remove authorization, proxy-authorization, x-api-key, api-key, cookie and set-cookie"
	// +listType=set
	Headers []string `json:"headers,omitempty"`
	// Route makes the service choose the endpoint of each request; the body that the service
	// receives has "route": true. A client overrides this for a request with the member "route" of
	// its body, true or false. The member is removed before the request reaches a model server. A
	// worker_address that is not an endpoint of the pool, or is outside the request's subset, is
	// ignored. Defaults to the environment variable USE_EXTERNAL_LLM_ROUTER, else false.
	Route *bool `json:"route,omitempty"`
}

// CHWBLSpec configures strategy chwbl: consistent hashing with bounded loads.
type CHWBLSpec struct {
	// VirtualNodesPerReplica is the number of places that each endpoint has on the hash ring. More
	// places distribute requests more evenly.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +kubebuilder:default=100
	VirtualNodesPerReplica *int32 `json:"virtualNodesPerReplica,omitempty"`
	// LoadFactorPercent is the maximum number of requests in flight at an endpoint, in percent of
	// the mean of all endpoints. A request that would exceed it goes to the next endpoint on the
	// ring.
	//
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=10000
	// +kubebuilder:default=125
	LoadFactorPercent *int32 `json:"loadFactorPercent,omitempty"`
	// MaxUserMessagesForCache is the maximum number of user messages of a chat completion that are
	// hashed, together with the last system message before the last of these. For any other request
	// the whole body is hashed.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=2
	MaxUserMessagesForCache *int32 `json:"maxUserMessagesForCache,omitempty"`
}

// FlowControlSpec configures flow control. A server's saturation is the larger of waiting requests
// / saturation.queue and KV cache usage / saturation.kvCachePercent. A pool's saturation is the
// mean over its servers. At 1 the pool takes no further requests. A request of criticality
// Sheddable is sent only to servers without waiting requests.
type FlowControlSpec struct {
	// Order selects which request of a fairness ID goes first. FCFS selects the request with the
	// longest wait. Deadline selects the request with the nearest deadline for the first token.
	//
	// +kubebuilder:validation:Enum=FCFS;Deadline
	// +kubebuilder:default=FCFS
	Order string `json:"order,omitempty"`
	// MaxRequests is the maximum number of waiting requests of each priority. Further requests are
	// answered with 429. If another fairness ID has more requests in the queue, one of its requests
	// is answered with 429 instead.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +kubebuilder:default=5000
	MaxRequests *int32 `json:"maxRequests,omitempty"`
	// MaxBytes is the maximum size in bytes of the waiting requests' bodies, by content-length.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:default=1000000000
	MaxBytes *int64 `json:"maxBytes,omitempty"`
	// TTLSeconds is how long a request waits before it is answered with 429. While the pool has no
	// endpoint, a request waits at most 10 s and is answered with 503.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=280
	// +kubebuilder:default=60
	TTLSeconds *int32 `json:"ttlSeconds,omitempty"`
	// Saturation sets when a model server takes no further requests.
	//
	// +optional
	Saturation SaturationSpec `json:"saturation,omitzero"`
}

// SaturationSpec sets when a model server is saturated.
type SaturationSpec struct {
	// Queue is the number of waiting requests.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	// +kubebuilder:default=5
	Queue *int32 `json:"queue,omitempty"`
	// KVCachePercent is the usage of the KV cache in percent.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	// +kubebuilder:default=80
	KVCachePercent *int32 `json:"kvCachePercent,omitempty"`
}

// SessionSpec configures sessions for strategy session and selection.affinity. A request's session
// is identified by the header x-session-token, which the picker sets in each response and the
// client sends back, else by the header x-session-id, else by a cookie. The client chooses the
// values of x-session-id and the cookie.
type SessionSpec struct {
	// TTLSeconds is how long a session stays at its endpoint, or in its cluster, after its last
	// request.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	// +kubebuilder:default=300
	TTLSeconds *int32 `json:"ttlSeconds,omitempty"`
	// CookieName is the cookie whose value is the ID of the session.
	//
	// +kubebuilder:default=session-id
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[!#$%&'*+.^_|~0-9A-Za-z-]+$`
	CookieName string `json:"cookieName,omitempty"`
}

// FullSpec holds thresholds. An endpoint that reaches one of them is full.
type FullSpec struct {
	// Queue is the number of waiting requests.
	//
	// +kubebuilder:validation:Minimum=1
	Queue *int32 `json:"queue,omitempty"`
	// KVCachePercent is the usage of the KV cache in percent.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	KVCachePercent *int32 `json:"kvCachePercent,omitempty"`
	// InFlight is the number of requests in flight from all Gateways and all processes of Penstock.
	//
	// +kubebuilder:validation:Minimum=1
	InFlight *int32 `json:"inFlight,omitempty"`
}

// MetricsSpec configures where and under which names model servers expose their load.
type MetricsSpec struct {
	// Engine selects the names of the series, for pods without the label llm-d.ai/engine-type or
	// inference.networking.k8s.io/engine-type. The labels accept the same values. Defaults to vllm.
	//
	// +kubebuilder:validation:Enum=vllm;sglang;trtllm-serve;triton-tensorrt-llm;llamacpp
	Engine string `json:"engine,omitempty"`
	// Path of the metrics page. Defaults to /metrics, and to /prometheus/metrics for trtllm-serve.
	//
	// +kubebuilder:validation:Pattern=`^/`
	Path string `json:"path,omitempty"`
	// Port of the metrics page. Defaults to the endpoint's own port, and to 8002 for
	// triton-tensorrt-llm.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`
	// MaxPageBytes is the maximum size of a metrics page in bytes. If a page is larger, its
	// endpoint counts as an endpoint without metrics.
	//
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=8388608
	// +kubebuilder:default=1048576
	MaxPageBytes *int32 `json:"maxPageBytes,omitempty"`
	// LoadStatPort is the port in SGLang's --load-publish-endpoint (since 0.5.19), at which it
	// publishes its load. If the flag is "auto", SGLang takes the port after the ports of its KV
	// events: 5558 if KV events use 5557. Several model servers of a pod publish at successive
	// ports, in the order of their serving ports. Metrics pages are not read while loads arrive. By
	// default only metrics pages are read.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	LoadStatPort *int32 `json:"loadStatPort,omitempty"`
	// Queue is the name of the series with the number of waiting requests, instead of the engine's
	// series. With labels, as NAME{LABEL=VALUE}, only matching lines count. The same applies to the
	// fields running and kvCache.
	//
	// +kubebuilder:validation:Pattern=`^([^\s{}",=]+\s*(\{\s*([a-zA-Z_][a-zA-Z0-9_]*\s*=\s*("[^",]*"\s*|[^",{}=]*)(,\s*[a-zA-Z_][a-zA-Z0-9_]*\s*=\s*("[^",]*"\s*|[^",{}=]*))*,?\s*)?\})?)?$`
	Queue string `json:"queue,omitempty"`
	// Running is the name of the series with the number of running requests.
	//
	// +kubebuilder:validation:Pattern=`^([^\s{}",=]+\s*(\{\s*([a-zA-Z_][a-zA-Z0-9_]*\s*=\s*("[^",]*"\s*|[^",{}=]*)(,\s*[a-zA-Z_][a-zA-Z0-9_]*\s*=\s*("[^",]*"\s*|[^",{}=]*))*,?\s*)?\})?)?$`
	Running string `json:"running,omitempty"`
	// KVCache is the name of the series with the KV cache's usage, 0 to 1.
	//
	// +kubebuilder:validation:Pattern=`^([^\s{}",=]+\s*(\{\s*([a-zA-Z_][a-zA-Z0-9_]*\s*=\s*("[^",]*"\s*|[^",{}=]*)(,\s*[a-zA-Z_][a-zA-Z0-9_]*\s*=\s*("[^",]*"\s*|[^",{}=]*))*,?\s*)?\})?)?$`
	KVCache string `json:"kvCache,omitempty"`
}

// KVEventsSpec configures where model servers publish their KV events, over a ZeroMQ PUB socket on
// TCP.
//
// +kubebuilder:validation:XValidation:rule="!has(self.port) || !has(self.mode) || self.mode == 'Dial'",message="port is of mode Dial; in mode Listen the model servers connect to the address of --picker-kv-events"
type KVEventsSpec struct {
	// Mode is Dial if Penstock connects to each model server, or Listen if the model servers
	// connect to Penstock, at the address of --picker-kv-events. A server that connects is
	// identified by its IP address. If several servers share an address, the topic must name the
	// server, as kv@ADDRESS:PORT@MODEL or kv@POD@MODEL.
	//
	// +kubebuilder:validation:Enum=Dial;Listen
	// +kubebuilder:default=Dial
	Mode string `json:"mode,omitempty"`
	// Port at which each model server publishes. Several model servers of a pod publish at
	// successive ports, in the order of their serving ports, like vLLM's data-parallel ranks.
	// Defaults to 5557.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`
	// ReplayPort is the port at which each model server replays lost events, numbered like port.
	// Without replayPort, Penstock discards all events of a server when one event is lost.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	ReplayPort *int32 `json:"replayPort,omitempty"`
	// Render makes Penstock fetch the token IDs of text prompts from the model servers, so that
	// chat completions and completions match KV events, too. It uses vLLM's
	// /v1/chat/completions/render and /v1/completions/render. A pick waits for the response.
	// Without render, and for prompts of more than 512 KiB, such requests match the prompts that
	// were sent to each server.
	Render *RenderSpec `json:"render,omitempty"`
	// Topic is the prefix of the topics to read in mode Dial. Defaults to all topics.
	//
	// +kubebuilder:validation:MaxLength=256
	Topic string `json:"topic,omitempty"`
}

// RenderSpec configures how the token IDs of prompts are fetched.
type RenderSpec struct {
	// TimeoutMilliseconds is the maximum wait of a pick for the token IDs, in milliseconds.
	//
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=500
	// +kubebuilder:default=20
	TimeoutMilliseconds *int32 `json:"timeoutMilliseconds,omitempty"`
}
