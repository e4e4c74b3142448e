package main

// This file holds the hand-written halves of REFERENCE.md's generated tables. The tests beside it fail for a kind or a
// condition that is missing here, and for one that no code reports any more.

// kindWords are what each kind that is read is for.
var kindWords = map[string]string{
	"GatewayClass":        "Names the controller that serves its Gateways. In a folder it is optional: without one, Penstock serves every class; with one, its `controllerName` decides (`penstock.dev/gateway-controller`)",
	"Gateway":             "HTTP, HTTPS, TLS and TCP listeners. HTTPS and TLS listeners share a port by hostname. Client certificates: `tls.frontend`, also by port. A certificate that Envoy presents to backends: `tls.backend`",
	"ListenerSet":         "More listeners for a Gateway whose `allowedListeners` allows them, with routes and certificates of the ListenerSet's namespace",
	"HTTPRoute":           "Path, header, query and method matches; header modifiers, redirects, rewrites, mirrors, CORS, external authorization (on a rule or on one backendRef); timeouts, retries, sessions, weights. A request that no rule of a route for `x.a.com` matches can match a route for `*.a.com` on the same listener",
	"GRPCRoute":           "Services and methods, exact or by regular expression; headers and filters as in HTTPRoute. Backends speak h2c unless their `appProtocol` names another protocol; a pool needs `appProtocol: kubernetes.io/h2c`. A hostname of a listener has either HTTPRoutes or GRPCRoutes: the older kind wins",
	"TLSRoute":            "Connections by server name: passed through (`mode: Passthrough`), or decrypted at the listener (`mode: Terminate`)",
	"TCPRoute":            "Connections of a TCP listener, or of a TLS listener that terminates TLS; split by weight",
	"ReferenceGrant":      "Permits references from another namespace",
	"BackendTLSPolicy":    "TLS towards a Service (or one of its ports), a picker's Service, an InferencePool, an InferencePoolImport (or one exporting cluster, by `sectionName`). CAs come from ConfigMaps or from the system; it verifies host names and URIs",
	"Namespace":           "Its labels, for `allowedRoutes` and `allowedListeners` with a selector",
	"Service":             "A backend, a picker, an external authorization server. A Service without EndpointSlices selects Pods and ModelServers itself",
	"EndpointSlice":       "The endpoints of a Service",
	"Pod":                 "The model servers that an InferencePool's selector matches",
	"Secret":              "Certificates. In a cluster Penstock requests only the Secrets that a Gateway or a policy names, each by its name",
	"ConfigMap":           "CA certificates",
	"InferencePool":       "A pool of model servers, selected by label. Without `endpointPickerRef` Penstock's own picker picks; with it, Envoy calls that picker. If both API groups have a pool of one name, v1 counts",
	"InferenceModel":      "Is read and has no effect yet; a condition reports this",
	"InferencePoolImport": "A pool in another cluster, described by `status.clusters[]`",
	"ModelServers":        "Model servers that are not Pods: addresses with labels",
	"PoolPolicy":          "How Penstock picks from a pool, when the pool is full, and where its requests spill",
	"EnvoyFleet":          "How a Gateway's Envoys run in Kubernetes. The Gateway's `spec.infrastructure.parametersRef` names it, or its class's `spec.parametersRef`",
}

// conditionRows are the conditions that Penstock reports, in the order in which they are printed.
var conditionRows = []conditionRow{
	{"GatewayClass", "Accepted", "True", "Accepted", "Penstock serves the Gateways of this class"},
	{"GatewayClass", "Accepted", "False", "InvalidParameters", "`spec.parametersRef` names no EnvoyFleet that exists and is valid"},
	{"GatewayClass", "SupportedVersion", "True", "SupportedVersion", "The CRDs of Gateway API in the cluster are of a release from v1.1 to v1.6"},
	{"GatewayClass", "SupportedVersion", "False", "UnsupportedVersion", "Some CRDs are of another release, which the message names; Penstock serves them as far as it can"},

	{"Gateway", "Accepted", "True", "Accepted", "The Gateway is valid"},
	{"Gateway", "Accepted", "True", "ListenersNotValid", "The Gateway is valid, and some of its listeners are not; the message names them. `False` if no listener is valid"},
	{"Gateway", "Accepted", "False", "InvalidParameters", "`spec.infrastructure.parametersRef`, or a field of the EnvoyFleet that it names, is invalid"},
	{"Gateway", "Accepted", "False", "UnsupportedAddress", "`spec.addresses` has an address of a type or form that Penstock does not support"},
	{"Gateway", "Accepted", "False", "Pending", "The Gateway's class no longer exists. No listener accepts traffic until it exists again"},
	{"Gateway", "Programmed", "True", "Programmed", "In a cluster: the Gateway has its addresses, and its proxies have acknowledged its listeners. In a folder: the Gateway is valid and no Envoy rejects it"},
	{"Gateway", "Programmed", "False", "Invalid", "The Gateway is not accepted, no listener can serve, Envoy rejects a resource that comes from the Gateway, or another owner's object has the name of one of its fleet's objects"},
	{"Gateway", "Programmed", "False", "Pending", "No proxy is connected or ready, or the proxies have not acknowledged the listeners yet"},
	{"Gateway", "Programmed", "False", "AddressNotAssigned", "The Gateway's Service has no address yet"},
	{"Gateway", "Programmed", "False", "AddressNotUsable", "An address in `spec.addresses` cannot be assigned, or is outside the allowed ranges (`--external-ips`). In a folder: another Gateway has the port"},
	{"Gateway", "Programmed", "False", "NoResources", "The API server does not accept an object of the fleet, such as its Deployment; the message has its answer. With `penstock up`: the Envoy cannot be started; Penstock tries again"},
	{"Gateway", "ResolvedRefs", "True", "ResolvedRefs", "All references of the Gateway resolve"},
	{"Gateway", "ResolvedRefs", "False", "ListenersNotResolved", "References of some listeners do not resolve; the message names the listeners"},
	{"Gateway", "ResolvedRefs", "False", "InvalidClientCertificateRef", "`spec.tls.backend.clientCertificateRef` names no Secret with a valid certificate; Envoy presents none to backends"},
	{"Gateway", "ResolvedRefs", "False", "RefNotPermitted", "No ReferenceGrant permits the reference to a Secret in another namespace"},
	{"Gateway", "InsecureFrontendValidationMode", "True", "ConfigurationChanged", "A listener admits clients without a valid certificate (`AllowInsecureFallback`)"},
	{"Gateway", "penstock.dev/RolledOut", "False", "Stuck", "New proxies do not become ready, for example because the image does not exist or no node fits. The proxies that run keep serving"},

	{"Gateway listener", "Accepted", "True", "Accepted", "The listener is valid. The reasons of this table are those of a ListenerSet's listeners too"},
	{"Gateway listener", "Accepted", "False", "UnsupportedProtocol", "The protocol is not HTTP, HTTPS, TLS or TCP"},
	{"Gateway listener", "Accepted", "False", "UnsupportedValue", "The TLS mode does not fit the protocol, or `allowedRoutes` has an invalid selector"},
	{"Gateway listener", "Accepted", "False", "PortUnavailable", "The proxies' pods need the port for their own readiness probe"},
	{"Gateway listener", "Accepted", "False", "NoValidCACertificate", "No CA certificate for client certificates is valid"},
	{"Gateway listener", "Conflicted", "False", "NoConflicts", "No other listener conflicts"},
	{"Gateway listener", "Conflicted", "True", "HostnameConflict", "Another listener has the same port and hostname. `Accepted` and `Programmed` are then False for the same reason"},
	{"Gateway listener", "Conflicted", "True", "ProtocolConflict", "Another listener has the same port and a protocol that cannot share it"},
	{"Gateway listener", "Conflicted", "True", "ListenerConflict", "A listener of the Gateway, or of an older ListenerSet, already has the port and hostname"},
	{"Gateway listener", "Programmed", "True", "Programmed", "The listener accepts traffic"},
	{"Gateway listener", "Programmed", "False", "Invalid", "The listener or its Gateway is not accepted, or the listener has no usable certificate"},
	{"Gateway listener", "ResolvedRefs", "True", "ResolvedRefs", "All references of the listener resolve"},
	{"Gateway listener", "ResolvedRefs", "False", "InvalidCertificateRef", "`tls.certificateRefs` is empty, or names no Secret with a valid certificate"},
	{"Gateway listener", "ResolvedRefs", "False", "InvalidCACertificateRef", "`caCertificateRefs` names no ConfigMap with a valid CA certificate"},
	{"Gateway listener", "ResolvedRefs", "False", "InvalidCACertificateKind", "`caCertificateRefs` names an object of a kind that cannot hold CA certificates"},
	{"Gateway listener", "ResolvedRefs", "False", "InvalidRouteKinds", "`allowedRoutes.kinds` has a kind that the listener's protocol does not support"},
	{"Gateway listener", "ResolvedRefs", "False", "RefNotPermitted", "No ReferenceGrant permits a reference to another namespace"},
	{"Gateway listener", "OverlappingTLSConfig", "True", "OverlappingHostnames", "The hostname overlaps with that of another HTTPS listener on the port. Envoy answers misdirected requests with 421"},

	{"ListenerSet", "Accepted", "True", "Accepted", "The Gateway takes the listeners"},
	{"ListenerSet", "Accepted", "True", "ListenersNotValid", "Some listeners do not serve; the message names them. `False`, with `Programmed`, if none serves"},
	{"ListenerSet", "Accepted", "False", "NotAllowed", "The Gateway's `allowedListeners` does not allow ListenerSets of this namespace"},
	{"ListenerSet", "Accepted", "False", "ParentNotAccepted", "The Gateway is not accepted"},
	{"ListenerSet", "Programmed", "True", "Programmed", "The listeners accept traffic"},
	{"ListenerSet", "Programmed", "False", "ParentNotProgrammed", "The Gateway is not accepted or not programmed"},

	{"Route", "Accepted", "True", "Accepted", "The route is attached to the parent. Routes are HTTPRoute, GRPCRoute, TLSRoute and TCPRoute; conditions are reported for each parent"},
	{"Route", "Accepted", "False", "NoMatchingParent", "The parent has no listener with the name or port that `parentRefs` gives"},
	{"Route", "Accepted", "False", "NoMatchingListenerHostname", "No hostname of the route matches a hostname of the parent's listeners"},
	{"Route", "Accepted", "False", "NotAllowedByListeners", "`allowedRoutes` of the listeners does not allow the route's kind or namespace"},
	{"Route", "Accepted", "False", "RouteConflict", "Other routes have all of its hostnames: HTTPRoutes and GRPCRoutes do not share one, nor do routes of connections. The older route wins"},
	{"Route", "Accepted", "False", "UnsupportedValue", "A field of a rule has a value that Penstock does not support. If other rules are valid the condition is `PartiallyInvalid`"},
	{"Route", "Accepted", "False", "IncompatibleFilters", "Filters of one rule exclude each other. If other rules are valid the condition is `PartiallyInvalid`"},
	{"Route", "Accepted", "False", "InternalError", "The route's translation panics, which is a bug, and proxies never had the route; its requests are answered 500. Findings of any object name such a bug, and `Programmed` is then False for the same reason"},
	{"Route", "Accepted", "False", "TooManyRegularExpressions", "The regular expressions of all rules are above a budget: of the route, or of its namespace on the Gateway. If other rules are valid the condition is `PartiallyInvalid`"},
	{"Route", "PartiallyInvalid", "True", "TooManyRegularExpressions", "The regular expressions of some rules are above a budget: of the route, or of its namespace on the Gateway. Requests that these rules might match are answered 500"},
	{"Route", "PartiallyInvalid", "True", "UnsupportedValue", "Some rules are invalid and have no effect; the others have"},
	{"Route", "PartiallyInvalid", "True", "IncompatibleFilters", "Some rules are invalid and have no effect; the others have"},
	{"Route", "ResolvedRefs", "True", "ResolvedRefs", "All references of the route resolve"},
	{"Route", "ResolvedRefs", "False", "BackendNotFound", "A backend, or a port of it, does not exist, or an import has no exporting cluster that can be reached. Envoy answers its share of requests with 500"},
	{"Route", "ResolvedRefs", "False", "InvalidKind", "A backendRef has a kind that the route cannot use"},
	{"Route", "ResolvedRefs", "False", "RefNotPermitted", "No ReferenceGrant permits the reference to another namespace"},
	{"Route", "ResolvedRefs", "False", "UnsupportedProtocol", "The backend's `appProtocol` does not fit the route"},
	{"Route", "ResolvedRefs", "False", "UnsupportedValue", "A backendRef to a Service has no port"},

	{"BackendTLSPolicy", "Accepted", "True", "Accepted", "The policy is in force. Conditions are reported for each Gateway that uses the target"},
	{"BackendTLSPolicy", "Accepted", "False", "TargetNotFound", "The target, or the section of it that is named, does not exist"},
	{"BackendTLSPolicy", "Accepted", "False", "Conflicted", "An older policy has the same target"},
	{"BackendTLSPolicy", "Accepted", "False", "NoValidCACertificate", "No CA certificate is valid. Envoy answers requests with 503"},
	{"BackendTLSPolicy", "Accepted", "False", "Invalid", "The validation rules are invalid. Envoy answers requests with 503"},
	{"BackendTLSPolicy", "ResolvedRefs", "True", "ResolvedRefs", "All CA references resolve"},
	{"BackendTLSPolicy", "ResolvedRefs", "False", "InvalidCACertificateRef", "A CA reference names no ConfigMap with a valid CA certificate"},
	{"BackendTLSPolicy", "ResolvedRefs", "False", "InvalidKind", "A CA reference names an object of a kind that cannot hold CA certificates"},

	{"InferencePool", "Accepted", "True", "Accepted", "A route sends requests to the pool. Conditions are reported for each Gateway"},
	{"InferencePool", "ResolvedRefs", "True", "ResolvedRefs", "The pool's picker exists, or it names none"},
	{"InferencePool", "ResolvedRefs", "False", "InvalidExtensionRef", "`endpointPickerRef` names no Service with the port"},

	{"InferencePoolImport", "Accepted", "True", "Accepted", "A route sends requests to the import. Conditions are reported for each Gateway, in the `parents` of the entry of `penstock.dev/gateway-controller` in `status.controllers`; Penstock writes nothing else of an import's status"},
	{"InferencePoolImport", "ResolvedRefs", "True", "ResolvedRefs", "All exporting clusters are valid"},
	{"InferencePoolImport", "ResolvedRefs", "False", "InvalidCluster", "Some exporting clusters cannot be used as declared; the message names the fields"},
	{"InferencePoolImport", "Ready", "True", "Ready", "At least one exporting cluster has known addresses and no condition Ready=False of its own; the message counts them"},
	{"InferencePoolImport", "Ready", "False", "NoUsableCluster", "No exporting cluster has known addresses and is ready"},

	{"PoolPolicy", "Accepted", "True", "Accepted", "The policy is in force"},
	{"PoolPolicy", "Accepted", "False", "TargetNotFound", "The pool or import does not exist in the policy's namespace"},
	{"PoolPolicy", "Accepted", "False", "Conflicted", "An older policy has the same target"},
	{"PoolPolicy", "ResolvedRefs", "True", "ResolvedRefs", "All spill targets can receive requests"},
	{"PoolPolicy", "ResolvedRefs", "False", "InvalidSpillTarget", "Requests cannot spill to some of the targets; the message names them"},

	{"ModelServers", "ResolvedRefs", "True", "ResolvedRefs", "All host names resolve"},
	{"ModelServers", "ResolvedRefs", "False", "AddressNotFound", "A host name does not resolve; the message names it"},

	{"InferenceModel", "Accepted", "True", "Accepted", "The pool exists. The message lists the fields that have no effect yet"},
	{"InferenceModel", "Accepted", "False", "PoolNotFound", "`spec.poolRef` names no InferencePool of the namespace"},

	{"Every other object", "Programmed", "False", "Invalid", "Envoy rejects (NACKs) a resource that comes from this object. The message has Envoy's words. What Envoy had before stays in force"},
}

// resultWords describe the results of picks whose constant has no comment.
var resultWords = map[string]string{
	"picked":  "the picker chose an endpoint of the pool",
	"relayed": "a remote picker chose the endpoint",
}
