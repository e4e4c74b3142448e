package main

// This file holds the hand-written halves of REFERENCE.md's generated tables. The tests beside it
// fail for a kind or a condition that is missing here, and for one that no code reports any more.

// kindWords describe the purpose of each kind that is read.
var kindWords = map[string]string{
	"GatewayClass": "Names the controller that serves its Gateways. In a folder it is optional: without " +
		"one, Penstock serves every class; with one, its `controllerName` decides (`penstock.dev/gateway-controller`)",
	"Gateway": "HTTP, HTTPS, TLS and TCP listeners. HTTPS and TLS listeners share a port by hostname. " +
		"Client certificates: `tls.frontend`, also by port. A certificate that Envoy presents to backends: " +
		"`tls.backend`",
	"ListenerSet": "More listeners for a Gateway whose `allowedListeners` allows them, with routes and " +
		"certificates of the ListenerSet's namespace",
	"HTTPRoute": "Path, header, query and method matches; header modifiers, redirects, rewrites, " +
		"mirrors, CORS, external authorization (on a rule or on one backendRef); timeouts, retries, sessions, " +
		"weights. A request that no rule of a route for `x.a.com` matches can match a route for `*.a.com` on the " +
		"same listener",
	"GRPCRoute": "Services and methods, exact or by regular expression; headers and filters as in " +
		"HTTPRoute. Backends speak h2c unless their `appProtocol` names another protocol; a pool needs `appProtocol: " +
		"kubernetes.io/h2c`. A hostname of a listener has either HTTPRoutes or GRPCRoutes: the older kind wins",
	"TLSRoute": "Connections by server name: passed through (`mode: Passthrough`), or decrypted at the " +
		"listener (`mode: Terminate`)",
	"UDPRoute":       "Datagrams of a UDP listener; the clients' addresses split by weight",
	"TCPRoute":       "Connections of a TCP listener, or of a TLS listener that terminates TLS; split by weight",
	"ReferenceGrant": "Permits references from another namespace",
	"BackendTLSPolicy": "TLS towards a Service or ServiceImport (or one of its ports), a picker's Service, an " +
		"InferencePool, an InferencePoolImport (or one exporting cluster, by `sectionName` or as `NAME-CLUSTER`; " +
		"`CLUSTER.picker` for its picker alone). CAs come from ConfigMaps or from the system; it verifies host " +
		"names and URIs",
	"Namespace": "Its labels, for `allowedRoutes` and `allowedListeners` with a selector",
	"Service": "A backend, a picker, an external authorization server. A Service without " +
		"EndpointSlices selects Pods and ModelServers itself",
	"ServiceImport": "A Service of several clusters (`multicluster.x-k8s.io/v1beta1`, `v1alpha1`), as a " +
		"backend of every kind of route. Its endpoints are the EndpointSlices with the label " +
		"`multicluster.kubernetes.io/service-name`; without any, its `spec.ips`, within the ranges that the " +
		"operator allows",
	"EndpointSlice": "The endpoints of a Service or ServiceImport",
	"Pod":           "The model servers that an InferencePool's selector matches",
	"Secret": "Certificates. In a cluster Penstock requests only the Secrets that a Gateway or a " +
		"policy names, each by its name",
	"ConfigMap": "CA certificates, and the document that `spec.picker.configRef` of a PoolPolicy names. " +
		"In a cluster Penstock requests only the ConfigMaps that an object names, each by its name",
	"InferencePool": "A pool of model servers, selected by label. Without `endpointPickerRef` Penstock's own " +
		"picker picks; with it, Envoy calls that picker. If both API groups have a pool of one name, v1 counts",
	"InferenceModel": "What becomes of requests that name a model: their criticality, and the models that " +
		"they are split among. Of two for one model of a pool, the older counts",
	"InferenceModelRewrite": "Replaces the models that requests to a pool name, split by weight " +
		"(`llm-d.ai/v1alpha2`, or `inference.networking.x-k8s.io/v1alpha2`). A rule that matches the model goes " +
		"before one without matches, then the older object's, then the first. Between it and an InferenceModel's " +
		"`targetModels`, the older counts",
	"InferenceObjective": "The priority of requests that name it in the header `x-llm-d-inference-objective` or " +
		"`x-gateway-inference-objective`, for pools whose PoolPolicy has `trustHeaders` (groups as " +
		"InferenceModelRewrite)",
	"InferencePoolImport": "A pool in another cluster, described by `status.clusters[]`",
	"ModelServers":        "Model servers that are not Pods: addresses with labels",
	"PoolPolicy":          "How Penstock picks from a pool, when the pool is full, and where its requests spill",
	"EndpointPickerConfig": "Filters, scorers and picker of a pool, in the form of llm-d's router " +
		"(`llm-d.ai/v1alpha1`, or `inference.networking.x-k8s.io/v1alpha1`), with `metadata.name`. A PoolPolicy " +
		"names it in `spec.picker.configRef`. In a folder only: in a cluster a ConfigMap has the document",
	"EnvoyFleet": "How a Gateway's Envoys run in Kubernetes. The Gateway's " +
		"`spec.infrastructure.parametersRef` names it, or its class's `spec.parametersRef`",
	"ClusterSet": "This cluster's part in a set of clusters that share pools: its name, and the members " +
		"with which Penstock exchanges exports. Of several the oldest counts, or the first by name",
	"ClusterProperty": "The one named `cluster.clusterset.k8s.io` has the name of this cluster in its cluster " +
		"set, for a ClusterSet without `spec.cluster` (KEP-2149). Others are not used",
}

// conditionRows are the conditions that Penstock reports, in the order in which they are printed.
var conditionRows = []conditionRow{
	{"GatewayClass", "Accepted", "True", "Accepted", "Penstock serves the Gateways of this class"},
	{"GatewayClass", "Accepted", "False", "InvalidParameters",
		"`spec.parametersRef` names no EnvoyFleet that exists and is valid"},
	{"GatewayClass", "SupportedVersion", "True", "SupportedVersion",
		"The CRDs of Gateway API in the cluster are of a release from v1.1 to v1.6"},
	{"GatewayClass", "SupportedVersion", "False", "UnsupportedVersion",
		"Some CRDs are of another release, which the message names; Penstock serves them as far as it can"},

	{"Gateway", "Accepted", "True", "Accepted", "The Gateway is valid"},
	{"Gateway", "Accepted", "True", "ListenersNotValid",
		"The Gateway is valid, and some of its listeners are not; the message names them. `False` if no " +
			"listener is valid"},
	{"Gateway", "Accepted", "False", "InvalidParameters",
		"`spec.infrastructure.parametersRef`, or a field of the EnvoyFleet that it names, is invalid"},
	{"Gateway", "Accepted", "False", "UnsupportedAddress",
		"`spec.addresses` has an address of a type or form that Penstock does not support"},
	{
		"Gateway", "Accepted", "False", "Pending",
		"The Gateway's class no longer exists. No listener accepts traffic until it exists again",
	},
	{"Gateway", "Programmed", "True", "Programmed",
		"In a cluster: the Gateway has its addresses, and its proxies have acknowledged its listeners. In a folder: " +
			"the Gateway is valid and no Envoy rejects it"},
	{
		"Gateway", "Programmed", "False", "Invalid",
		"The Gateway is not accepted, no listener can serve, Envoy rejects a resource that comes from the Gateway, " +
			"or another owner's object has the name of one of its fleet's objects",
	},
	{
		"Gateway", "Programmed", "False", "Pending",
		"No proxy is connected or ready, or the proxies have not acknowledged the listeners yet",
	},
	{"Gateway", "Programmed", "False", "AddressNotAssigned", "The Gateway's Service has no address yet"},
	{"Gateway", "Programmed", "False", "AddressNotUsable",
		"An address in `spec.addresses` cannot be assigned, or is outside the allowed ranges (`--external-ips`). In " +
			"a folder: another Gateway has the port"},
	{"Gateway", "Programmed", "False", "NoResources",
		"The API server does not accept an object of the fleet, such as its Deployment; the message has its answer. " +
			"With `penstock up`: the Envoy cannot be started; Penstock tries again"},
	{"Gateway", "ResolvedRefs", "True", "ResolvedRefs", "All references of the Gateway resolve"},
	{"Gateway", "ResolvedRefs", "False", "ListenersNotResolved",
		"References of some listeners do not resolve; the message names the listeners"},
	{"Gateway", "ResolvedRefs", "False", "InvalidClientCertificateRef",
		"`spec.tls.backend.clientCertificateRef` names no Secret with a valid certificate; Envoy presents none " +
			"to backends"},
	{"Gateway", "ResolvedRefs", "False", "RefNotPermitted",
		"No ReferenceGrant permits the reference to a Secret in another namespace"},
	{"Gateway", "InsecureFrontendValidationMode", "True", "ConfigurationChanged",
		"A listener admits clients without a valid certificate (`AllowInsecureFallback`)"},
	{"Gateway", "penstock.dev/RolledOut", "False", "Stuck",
		"New proxies do not become ready, for example because the image does not exist or no node fits. The proxies " +
			"that run keep serving"},

	{"Gateway listener", "Accepted", "True", "Accepted",
		"The listener is valid. A ListenerSet's listeners have the same reasons"},
	{"Gateway listener", "Accepted", "False", "UnsupportedProtocol", "The protocol is not HTTP, HTTPS, TLS or TCP"},
	{"Gateway listener", "Accepted", "False", "UnsupportedValue",
		"The TLS mode does not fit the protocol, or `allowedRoutes` has an invalid selector"},
	{"Gateway listener", "Accepted", "False", "PortUnavailable",
		"The proxies' pods need the port for their own readiness probe"},
	{"Gateway listener", "Accepted", "False", "NoValidCACertificate",
		"No CA certificate for client certificates is valid"},
	{"Gateway listener", "Conflicted", "False", "NoConflicts", "No other listener conflicts"},
	{"Gateway listener", "Conflicted", "True", "HostnameConflict",
		"Another listener has the same port and hostname. `Accepted` and `Programmed` are then False for the " +
			"same reason"},
	{"Gateway listener", "Conflicted", "True", "ProtocolConflict",
		"Another listener has the same port and a protocol that cannot share it"},
	{"Gateway listener", "Conflicted", "True", "ListenerConflict",
		"A listener of the Gateway, or of an older ListenerSet, already has the port and hostname"},
	{"Gateway listener", "Programmed", "True", "Programmed", "The listener accepts traffic"},
	{"Gateway listener", "Programmed", "False", "Invalid",
		"The listener or its Gateway is not accepted, or the listener has no usable certificate"},
	{"Gateway listener", "ResolvedRefs", "True", "ResolvedRefs", "All references of the listener resolve"},
	{"Gateway listener", "ResolvedRefs", "False", "InvalidCertificateRef",
		"`tls.certificateRefs` is empty, or names no Secret with a valid certificate"},
	{"Gateway listener", "ResolvedRefs", "False", "InvalidCACertificateRef",
		"`caCertificateRefs` names no ConfigMap with a valid CA certificate"},
	{"Gateway listener", "ResolvedRefs", "False", "InvalidCACertificateKind",
		"`caCertificateRefs` names an object of a kind that cannot hold CA certificates"},
	{"Gateway listener", "ResolvedRefs", "False", "InvalidRouteKinds",
		"`allowedRoutes.kinds` has a kind that the listener's protocol does not support"},
	{"Gateway listener", "ResolvedRefs", "False", "RefNotPermitted",
		"No ReferenceGrant permits a reference to another namespace"},
	{"Gateway listener", "OverlappingTLSConfig", "True", "OverlappingHostnames",
		"The hostname overlaps with that of another HTTPS listener on the port. Envoy answers misdirected " +
			"requests with 421"},

	{"ListenerSet", "Accepted", "True", "Accepted", "The Gateway takes the listeners"},
	{"ListenerSet", "Accepted", "True", "ListenersNotValid",
		"Some listeners do not serve; the message names them. `False`, with `Programmed`, if none serves"},
	{"ListenerSet", "Accepted", "False", "NotAllowed",
		"The Gateway's `allowedListeners` does not allow ListenerSets of this namespace"},
	{"ListenerSet", "Accepted", "False", "ParentNotAccepted", "The Gateway is not accepted"},
	{"ListenerSet", "Programmed", "True", "Programmed", "The listeners accept traffic"},
	{"ListenerSet", "Programmed", "False", "ParentNotProgrammed", "The Gateway is not accepted or not programmed"},

	{
		"Route", "Accepted", "True", "Accepted",
		"The route is attached to the parent. Routes are HTTPRoute, GRPCRoute, TLSRoute, TCPRoute and UDPRoute; " +
			"conditions are reported for each parent",
	},
	{"Route", "Accepted", "False", "NoMatchingParent",
		"The parent has no listener with the name or port that `parentRefs` gives"},
	{"Route", "Accepted", "False", "NoMatchingListenerHostname",
		"No hostname of the route matches a hostname of the parent's listeners"},
	{"Route", "Accepted", "False", "NotAllowedByListeners",
		"`allowedRoutes` of the listeners does not allow the route's kind or namespace"},
	{"Route", "Accepted", "False", "RouteConflict",
		"Other routes have all of its hostnames: HTTPRoutes and GRPCRoutes do not share one, nor do routes of " +
			"connections. The older route wins"},
	{"Route", "Accepted", "False", "RouteBudgetExceeded",
		"The routes of its namespace, which is not the Gateway's, are above the budget of Envoy's time on the " +
			"listener (`routes.budgetMilliseconds` of the EnvoyFleet), and this route has no room beside older ones. " +
			"The message has what it costs"},
	{"Route", "Accepted", "False", "UnsupportedValue",
		"A field of a rule has a value that Penstock does not support. If other rules are valid the condition is " +
			"`PartiallyInvalid`"},
	{"Route", "Accepted", "False", "IncompatibleFilters",
		"Filters of one rule exclude each other. If other rules are valid the condition is `PartiallyInvalid`"},
	{"Route", "Accepted", "False", "InternalError",
		"The route's translation panics, which is a bug, and proxies never had the route; its requests are answered " +
			"500. Findings of any object name such a bug, and `Programmed` is then False for the same reason"},
	{"Route", "Accepted", "False", "TooManyRegularExpressions",
		"The regular expressions of all rules are above a budget: of the route, or of its namespace on the Gateway. " +
			"If other rules are valid the condition is `PartiallyInvalid`"},
	{"Route", "PartiallyInvalid", "True", "TooManyRegularExpressions",
		"The regular expressions of some rules are above a budget: of the route, or of its namespace on the Gateway. " +
			"Requests that these rules might match are answered 500"},
	{"Route", "PartiallyInvalid", "True", "UnsupportedValue",
		"Some rules are invalid and have no effect; the others have"},
	{"Route", "PartiallyInvalid", "True", "IncompatibleFilters",
		"Some rules are invalid and have no effect; the others have"},
	{"Route", "ResolvedRefs", "True", "ResolvedRefs", "All references of the route resolve"},
	{"Route", "ResolvedRefs", "False", "BackendNotFound",
		"A backend, or a port of it, does not exist, or an import has no exporting cluster that can be reached. " +
			"Envoy answers its share of requests with 500"},
	{"Route", "ResolvedRefs", "False", "InvalidKind", "A backendRef has a kind that the route cannot use"},
	{"Route", "ResolvedRefs", "False", "RefNotPermitted",
		"No ReferenceGrant permits the reference to another namespace"},
	{"Route", "ResolvedRefs", "False", "UnsupportedProtocol", "The backend's `appProtocol` does not fit the route"},
	{"Route", "ResolvedRefs", "False", "UnsupportedValue",
		"A backendRef to a Service has no port, or the Service is of type ExternalName, which " +
			"`--allow-external-name` does not allow"},
	{"Route", "ResolvedRefs", "False", "AddressNotAllowed",
		"A Service of type ExternalName has addresses outside the allowed ranges (`--allowed-cidrs`). Envoy sends " +
			"requests to its other addresses, or answers 503"},

	{"BackendTLSPolicy", "Accepted", "True", "Accepted",
		"The policy is in force. Conditions are reported for each Gateway that uses the target"},
	{"BackendTLSPolicy", "Accepted", "False", "TargetNotFound",
		"The target, or the section of it that is named, does not exist"},
	{"BackendTLSPolicy", "Accepted", "False", "Conflicted", "An older policy has the same target"},
	{"BackendTLSPolicy", "Accepted", "False", "NoValidCACertificate",
		"No CA certificate is valid. Envoy answers requests with 503"},
	{"BackendTLSPolicy", "Accepted", "False", "Invalid",
		"The validation rules are invalid. Envoy answers requests with 503"},
	{"BackendTLSPolicy", "ResolvedRefs", "True", "ResolvedRefs", "All CA references resolve"},
	{"BackendTLSPolicy", "ResolvedRefs", "False", "InvalidCACertificateRef",
		"A CA reference names no ConfigMap with a valid CA certificate"},
	{"BackendTLSPolicy", "ResolvedRefs", "False", "InvalidKind",
		"A CA reference names an object of a kind that cannot hold CA certificates"},

	{"InferencePool", "Accepted", "True", "Accepted",
		"A route sends requests to the pool. Conditions are reported for each Gateway"},
	{"InferencePool", "ResolvedRefs", "True", "ResolvedRefs", "The pool's picker exists, or it names none"},
	{"InferencePool", "ResolvedRefs", "False", "InvalidExtensionRef",
		"`endpointPickerRef` names no Service with the port, or one of type ExternalName whose addresses are " +
			"not allowed"},

	{"InferencePool", "penstock.dev/Serving", "False", "NoServer",
		"No server of the pool serves; the message has the reason of the first. Absent while one does"},
	{"InferencePool", "Exported", "True", "Exported",
		"Every intended member of the ClusterSet imports the pool. The parent is the InferencePoolImport of the " +
			"pool's name"},
	{"InferencePool", "Exported", "False", "NotSupported",
		"An annotation about the export is invalid (a pool that was exported stays so until Penstock starts again, " +
			"unless `export-to` names no member), other clusters cannot reach the pool's picker, or members cannot " +
			"take what is exported; the message states which"},
	{"InferencePool", "Exported", "False", "NoAddress",
		"The picker's Service, or in ParentMode the Gateway, has no address yet"},
	{"InferencePool", "Exported", "False", "NotAllowed",
		"Some members do not import the pool, because their ClusterSet does not allow it, or none of its addresses " +
			"is within what is allowed there; the message names them, and what the first of them reports"},
	{"InferencePool", "Exported", "False", "NamespaceNotFound",
		"The pool's namespace does not exist in some members; the message names them"},
	{"InferencePool", "Exported", "False", "Conflict",
		"In some members, the import's `status.clusters` has an entry of this cluster that another controller or a " +
			"user wrote; the message names them. Requests are routed there all the same, by what this cluster exports"},
	{"InferencePool", "Exported", "False", "MemberUnreachable",
		"Some members have not confirmed the import; the message names them"},

	{"InferencePoolImport", "Accepted", "True", "Accepted",
		"A route sends requests to the import. Conditions are reported for each Gateway, in the `parents` of the " +
			"entry of `penstock.dev/gateway-controller` in `status.controllers`. In the entry of " +
			"`penstock.dev/multicluster-controller` and in `status.conditions`: the cluster set has made the import"},
	{"InferencePoolImport", "ResolvedRefs", "True", "ResolvedRefs", "All exporting clusters are valid"},
	{"InferencePoolImport", "ResolvedRefs", "False", "InvalidCluster",
		"Some exporting clusters cannot be used as declared; the message names the fields"},
	{"InferencePoolImport", "Ready", "True", "Ready",
		"At least one exporting cluster has known addresses and no condition Ready=False of its own; the message " +
			"counts them. Host names are resolved once a route uses the import"},
	{"InferencePoolImport", "Ready", "Unknown", "Stale",
		"In `status.conditions`, of the cluster set: no exporting cluster is Ready, and some are Stale or " +
			"Unreachable. Requests go to these all the same"},
	{"InferencePoolImport", "Ready", "False", "NoReadyCluster",
		"In `status.conditions`, of the cluster set: no exporting cluster takes new requests"},
	{"InferencePoolImport", "ClustersPruned", "True", "CRDOfAnotherProject",
		"In the entry of `penstock.dev/multicluster-controller`: the installed CRD has no `status.clusters`, so the " +
			"status has the clusters' names alone. Requests are routed all the same. In a hub's entry: conditions " +
			"`penstock.dev/Clusters` have the clusters, which Penstock alone reads"},
	{"InferencePoolImport", "Hub", "True", "Written",
		"In the entry of `penstock.dev/multicluster-hub`: which hub wrote it last, and in which epoch. An older " +
			"leader of it, and another hub, do not write it"},
	{"InferencePoolImport", "Ready", "False", "NoUsableCluster",
		"No exporting cluster has known addresses and is ready"},
	{"InferencePoolImport", "Ready", "False", "NoReadyCluster",
		"Every cluster of the set that exports the pool drains, or is not allowed to; the message names them"},
	{"InferencePoolImport", "Ready", "Unknown", "Stale",
		"No cluster of the set that exports the pool is known to be ready; requests are sent there as before. The " +
			"message names them"},
	{"InferencePoolImport cluster", "EPPReady", "True", "Ready",
		"The cluster is Ready, in EndpointMode. Not True: as its condition Ready, with the same reason; `False` if " +
			"its picker is known to fail"},
	{"InferencePoolImport cluster", "ParentsReady", "True", "Ready",
		"The cluster is Ready, in ParentMode. Not True: as its condition Ready, with the same reason"},
	{"InferencePoolImport cluster", "Imported", "True", "Imported",
		"Written by a hub: it imports the cluster since `lastTransitionTime`, the age of the names that the " +
			"import gives it"},
	{"InferencePoolImport cluster", "Imported", "False", "NotAllowed",
		"Written by a hub: it does not import the cluster; the message states why. Its name in this import " +
			"means nothing"},
	{"InferencePoolImport cluster", "Ready", "True", "Ready", "The member's lease runs"},
	{"InferencePoolImport cluster", "Ready", "Unknown", "Stale",
		"The member is connected, and has sent nothing for 15 s. Its wiring stays, and it gets requests"},
	{"InferencePoolImport cluster", "Ready", "Unknown", "Unreachable",
		"The member is not connected. Its wiring stays, and it gets requests"},
	{"InferencePoolImport cluster", "Ready", "Unknown", "PickerDown",
		"The member's picker fails; the message states how. Its wiring stays, and it gets requests"},
	{"InferencePoolImport cluster", "Ready", "False", "Draining",
		"The member has withdrawn the export, or drains. It gets no new request"},
	{"InferencePoolImport cluster", "Ready", "False", "NotAllowed",
		"The ClusterSet does not allow the export. It gets no request"},

	{"PoolPolicy", "Accepted", "True", "Accepted", "The policy is in force"},
	{"PoolPolicy", "Accepted", "False", "TargetNotFound",
		"The pool or import does not exist in the policy's namespace"},
	{"PoolPolicy", "Accepted", "False", "Conflicted", "An older policy has the same target"},
	{"PoolPolicy", "Accepted", "False", "InvalidSubset",
		"`spec.subset` is not a label selector; the message states why. Requests for it are answered 503, or spill"},
	{"PoolPolicy", "Accepted", "False", "InvalidPlugins",
		"A plugin in `spec.picker.plugins` is invalid; the message names it. The picker keeps the last valid " +
			"plugins, and after a restart the strategy `load`"},
	{"PoolPolicy", "ResolvedRefs", "True", "ResolvedRefs",
		"All spill targets can receive requests, and `spec.picker.configRef` names a valid document"},
	{"PoolPolicy", "ResolvedRefs", "False", "InvalidConfigRef",
		"`spec.picker.configRef` names no document, or an invalid one; the message names what is wrong in it. The " +
			"picker keeps the last valid document, and after a restart the strategy `load`"},
	{"PoolPolicy", "ResolvedRefs", "False", "InvalidScorerRef",
		"An `external-scorer` names no Service with the port; the message names it. The scorer does not count, and " +
			"all else is in force"},
	{"PoolPolicy", "ResolvedRefs", "False", "InvalidProcessorRef",
		"`spec.picker.processor` names no Service with the port; the message names it. Requests go on without it"},
	{"PoolPolicy", "ResolvedRefs", "False", "NoClusterWithin",
		"`spec.selection.within` allows none of the clusters that export the pool, and requests for it are answered " +
			"500; the message names the clusters"},
	{"PoolPolicy", "ResolvedRefs", "False", "InvalidSpillTarget",
		"Requests cannot spill to some of the targets; the message names them"},

	{"ModelServers", "ResolvedRefs", "True", "ResolvedRefs", "No host name that a pool uses fails to resolve"},
	{"ModelServers", "ResolvedRefs", "False", "AddressNotFound", "A host name does not resolve; the message names it"},
	{"ModelServers", "ResolvedRefs", "False", "AddressNotAllowed",
		"An address, or one that a host name resolves to, is outside the allowed ranges (`--allowed-cidrs`) and gets " +
			"no request; the message names it"},

	{"InferenceModel", "Accepted", "True", "Accepted",
		"The InferenceModel is in force. One of a pool with an external picker gets a finding and no condition, as " +
			"do the next two kinds"},
	{"InferenceModel", "Accepted", "False", "ModelNameInUse", "An older InferenceModel has the same model of the pool"},
	{"InferenceModel", "Accepted", "False", "Invalid",
		"A field is invalid, such as a weight of 0; the message names it. The object has no effect"},
	{"InferenceModel", "Accepted", "False", "PoolNotFound", "`spec.poolRef` names no InferencePool of the namespace"},

	{"InferenceModelRewrite", "Accepted", "True", "Accepted", "At least one match of the rules is in force"},
	{"InferenceModelRewrite", "Accepted", "False", "Conflicted", "Rules of older objects go before each of its rules"},
	{"InferenceModelRewrite", "Accepted", "False", "Invalid",
		"A field is invalid, such as a weight of 0; the message names it. The object has no effect"},
	{"InferenceModelRewrite", "Accepted", "False", "PoolNotFound",
		"`spec.poolRef` names no InferencePool of the namespace"},

	{"InferenceObjective", "Accepted", "True", "Accepted",
		"Requests can name the objective, if the pool trusts their headers"},
	{"InferenceObjective", "Accepted", "False", "Invalid", "`spec.poolRef` names an object that is no InferencePool"},
	{"InferenceObjective", "Accepted", "False", "PoolNotFound",
		"`spec.poolRef` names no InferencePool of the namespace"},

	{"ClusterSet", "Accepted", "True", "Accepted",
		"The ClusterSet is in force. The message names what is wrong with members; `penstock status` lists it " +
			"as findings"},
	{"ClusterSet", "ClustersPruned", "True", "CRDOfAnotherProject",
		"The installed CRD of InferencePoolImport has no `status.clusters`: imports have the names of their clusters " +
			"alone. Requests are routed all the same"},
	{"ClusterSet", "Accepted", "False", "NoClusterName",
		"This cluster has no name: `spec.cluster` is empty, and there is no ClusterProperty " +
			"`cluster.clusterset.k8s.io` with a valid one. Nothing is exported or imported until it has one"},
	{"ClusterSet", "Accepted", "False", "Conflicted",
		"Another ClusterSet counts: the oldest, or the first by name. The message names it"},

	{"Every other object", "Programmed", "False", "Invalid",
		"Envoy rejects (NACKs) a resource that comes from this object. The message has Envoy's words. What Envoy had " +
			"before stays in force"},
}

// resultWords describe the results of picks whose constant has no comment.
var resultWords = map[string]string{
	"picked":  "the picker chose an endpoint of the pool",
	"relayed": "a remote picker chose the endpoint",
}
