package featuretests

import "testing"

const toA = `backendRefs: [{name: a, port: 80}]`

func TestHTTPRoute_RuleLeadsToItsService(t *testing.T) {
	web(t, toA).has("route", `{weighted_clusters: {clusters: [{name: service/default/a/80}]}}`).
		has("endpoints", `{socket_address: {address: 10.0.0.1, port_value: 80}}`)
}

func TestHTTPRoute303RedirectStatusCode_IsSent(t *testing.T) {
	web(t, `filters: [{type: RequestRedirect, requestRedirect: {statusCode: 303}}]`).
		has("route", `{redirect: {response_code: SEE_OTHER}}`)
}

func TestHTTPRoute307RedirectStatusCode_IsSent(t *testing.T) {
	web(t, `filters: [{type: RequestRedirect, requestRedirect: {statusCode: 307}}]`).
		has("route", `{redirect: {response_code: TEMPORARY_REDIRECT}}`)
}

func TestHTTPRoute308RedirectStatusCode_IsSent(t *testing.T) {
	web(t, `filters: [{type: RequestRedirect, requestRedirect: {statusCode: 308}}]`).
		has("route", `{redirect: {response_code: PERMANENT_REDIRECT}}`)
}

func TestHTTPRouteSchemeRedirect_ChangesTheScheme(t *testing.T) {
	web(t, `filters: [{type: RequestRedirect, requestRedirect: {scheme: https}}]`).
		has("route", `{redirect: {scheme_redirect: https}}`)
}

func TestHTTPRoutePortRedirect_ChangesThePort(t *testing.T) {
	web(t, `filters: [{type: RequestRedirect, requestRedirect: {port: 8443}}]`).
		has("route", `{redirect: {port_redirect: 8443}}`)
}

func TestHTTPRoutePathRedirect_ReplacesThePath(t *testing.T) {
	web(t,
		`filters: [{type: RequestRedirect, requestRedirect: {path: {type: ReplaceFullPath, replaceFullPath: /new}}}]`).has("route", `{redirect: {path_redirect: /new}}`)
}

func TestHTTPRoutePathRewrite_ReplacesThePrefix(t *testing.T) {
	web(t,
		"matches: [{path: {type: PathPrefix, value: /old}}]\nfilters: [{type: URLRewrite, urlRewrite: {path: {type: "+
			"ReplacePrefixMatch, replacePrefixMatch: /new}}}]\n"+toA).
		has("route", `{match: {path_separated_prefix: /old}, route: {prefix_rewrite: /new}}`)
}

func TestHTTPRouteHostRewrite_ReplacesTheHost(t *testing.T) {
	web(t, "filters: [{type: URLRewrite, urlRewrite: {hostname: new.example.com}}]\n"+toA).
		has("route", `{name: service/default/a/80, host_rewrite_literal: new.example.com}`)
}

func TestHTTPRouteMethodMatching_MatchesTheMethod(t *testing.T) {
	web(t, "matches: [{method: POST}]\n"+toA).has("route",
		`{match: {headers: [{name: ":method", string_match: {exact: POST}}]}}`)
}

func TestHTTPRouteQueryParamMatching_MatchesTheParameter(t *testing.T) {
	web(t, "matches: [{queryParams: [{name: team, value: a}]}]\n"+toA).
		has("route", `{match: {query_parameters: [{name: team, string_match: {exact: a}}]}}`)
}

func TestHTTPRouteResponseHeaderModification_ChangesResponseHeaders(t *testing.T) {
	web(t,
		"filters: [{type: ResponseHeaderModifier, responseHeaderModifier: {set: [{name: x-a, value: \"1\"}], remove: "+
			"[x-b]}}]\n"+toA).
		has("route",
			`{response_headers_to_add: [{header: {key: x-a, value: "1"}, append_action: OVERWRITE_IF_EXISTS_OR_ADD}], response_headers_to_remove: [x-b]}`)
}

func TestHTTPRouteBackendRequestHeaderModification_ChangesRequestsToThatBackend(t *testing.T) {
	web(t, `backendRefs:
- {name: a, port: 80, filters: [{type: RequestHeaderModifier, requestHeaderModifier: {add: [{name: x-a, value: "1"}]}}]}
- {name: b, port: 80}`).has("route", `{clusters: [{name: service/default/a/80, request_headers_to_add: [{header: {key: x-a, value: "1"}}]}, {name: service/default/b/80}]}`)
}

func TestHTTPRouteRequestMirror_CopiesRequests(t *testing.T) {
	web(t, "filters: [{type: RequestMirror, requestMirror: {backendRef: {name: b, port: 80}}}]\n"+toA).
		has("route", `{request_mirror_policies: [{cluster: service/default/b/80}]}`)
}

func TestHTTPRouteRequestMultipleMirrors_CopiesToEach(t *testing.T) {
	web(t, `filters:
- {type: RequestMirror, requestMirror: {backendRef: {name: b, port: 80}}}
- {type: RequestMirror, requestMirror: {backendRef: {name: a, port: 80}}}
`+toA).has("route", `{request_mirror_policies: [{cluster: service/default/b/80}, {cluster: service/default/a/80}]}`)
}

func TestHTTPRouteRequestPercentageMirror_CopiesAShare(t *testing.T) {
	web(t, "filters: [{type: RequestMirror, requestMirror: {percent: 20, backendRef: {name: b, port: 80}}}]\n"+toA).
		has("route",
			`{cluster: service/default/b/80, runtime_fraction: {default_value: {numerator: 200000, denominator: MILLION}}}`)
}

func TestHTTPRouteCORS_AllowsOrigins(t *testing.T) {
	web(t, "filters: [{type: CORS, cors: {allowOrigins: [\"https://a.example.com\"], allowMethods: [GET]}}]\n"+toA).
		has("route", `{allow_origin_string_match: [{exact: "https://a.example.com"}], allow_methods: GET}`)
}

func TestHTTPRouteRequestTimeout_BoundsTheRequest(t *testing.T) {
	web(t, "timeouts: {request: 3s}\n"+toA).has("route", `{route: {timeout: 3s}}`)
}

func TestHTTPRouteBackendTimeout_BoundsEachTry(t *testing.T) {
	web(t, "timeouts: {request: 3s, backendRequest: 1s}\n"+toA).has("route", `{retry_policy: {per_try_timeout: 1s}}`)
}

func TestHTTPRouteRetry_RepeatsOnStatusCodes(t *testing.T) {
	web(t, "retry: {codes: [500, 504], attempts: 3}\n"+toA).has("route",
		`{retry_policy: {num_retries: 3, retriable_status_codes: [500, 504]}}`)
}

func TestHTTPRouteRetryBackendTimeout_RepeatsATryThatTimedOut(t *testing.T) {
	web(t, "timeouts: {request: 3s, backendRequest: 1s}\nretry: {attempts: 2}\n"+toA).
		has("route", `{retry_policy: {num_retries: 2, per_try_timeout: 1s}}`)
}

func TestHTTPRouteRetryConnectionError_RepeatsAFailedConnection(t *testing.T) {
	web(t, "retry: {attempts: 2}\n"+toA).has("route",
		`{retry_policy: {num_retries: 2, retry_on: "connect-failure,refused-stream,reset-before-request,reset,retriable-status-codes"}}`)
}

func TestHTTPRouteNamedRouteRule_NamesEnvoysRoute(t *testing.T) {
	web(t, "name: checkout\n"+toA).has("route", `{name: HTTPRoute/default/web/checkout/4878402808cb573b}`)
}

func TestHTTPRouteDestinationPortMatching_KeepsListenersOfPortsApart(t *testing.T) {
	x := given(t,
		gatewayOf("listeners:\n- {name: one, port: 8080, protocol: HTTP}\n- {name: two, port: 8081, protocol: HTTP}"),
		services,
		"apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: web}\nspec: {parentRefs: "+
			"[{name: gw, port: 8081}], rules: [{backendRefs: [{name: a, port: 80}]}]}")
	x.has("route",
		`{name: http/8081~2, virtual_hosts: [{routes: [{route: {weighted_clusters: {clusters: [{name: service/default/a/80}]}}}]}]}`).
		hasNot("route",
			`{name: http/8080~2, virtual_hosts: [{routes: [{route: {weighted_clusters: {clusters: [{name: service/default/a/80}]}}}]}]}`)
}

func TestHTTPRouteParentRefPort_AttachesToListenersOfThatPort(t *testing.T) {
	x := given(t,
		gatewayOf("listeners:\n- {name: one, port: 8080, protocol: HTTP}\n- {name: two, port: 8081, protocol: HTTP}"),
		services,
		"apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: web}\nspec: {parentRefs: "+
			"[{name: gw, port: 8080}], rules: [{backendRefs: [{name: a, port: 80}]}]}")
	x.has("route",
		`{name: http/8080~2, virtual_hosts: [{routes: [{route: {weighted_clusters: {clusters: [{name: service/default/a/80}]}}}]}]}`).
		hasNot("route",
			`{name: http/8081~2, virtual_hosts: [{routes: [{route: {weighted_clusters: {clusters: [{name: service/default/a/80}]}}}]}]}`)
}

func TestHTTPRouteBackendProtocolH2C_SpeaksHTTP2(t *testing.T) {
	given(t, gateway, service("a", "10.0.0.1", ", appProtocol: kubernetes.io/h2c"), route("rules: [{"+toA+"}]")).
		has("cluster",
			`{name: service/default/a/80, typed_extension_protocol_options: {envoy.extensions.upstreams.http.v3.HttpProtocolOptions: {explicit_http_config: {http2_protocol_options: {}}}}}`)
}

func TestHTTPRouteBackendProtocolWebSocket_AllowsUpgrades(t *testing.T) {
	given(t, gateway, service("a", "10.0.0.1", ", appProtocol: kubernetes.io/ws"), route("rules: [{"+toA+"}]")).
		has("listener", `{upgrade_configs: [{upgrade_type: websocket}]}`)
}
