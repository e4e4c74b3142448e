package featuretests

import "testing"

func TestGRPCRouteNamedRouteRule_NamesEnvoysRoute(t *testing.T) {
	given(t, gateway, services,
		routeOf("GRPCRoute", "rules: [{name: greet, matches: [{method: {service: echo.Echo, method: Greet}}], "+toA+
			"}]")).
		has("route", `{name: GRPCRoute/default/web/greet/ae2f6b4534a0d638, match: {grpc: {}, path: /echo.Echo/Greet}}`)
}

func TestBackendTLSPolicySANValidation_ChecksTheNamesOfTheCertificate(t *testing.T) {
	given(t, gateway, services, route("rules: [{"+toA+"}]"), `apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: a}
spec:
  targetRefs: [{group: "", kind: Service, name: a}]
  validation: {hostname: a.example.com, wellKnownCACertificates: System, subjectAltNames: [{type: URI, uri: "spiffe://a/b"}, {type: Hostname, hostname: other.example.com}]}`).
		has("cluster",
			`{sni: a.example.com, common_tls_context: {validation_context: {match_typed_subject_alt_names: [{san_type: DNS, matcher: {exact: other.example.com}}, {san_type: URI, matcher: {exact: "spiffe://a/b"}}]}}}`)
}

func TestGatewayPort8080_ListensThere(t *testing.T) {
	web(t, toA).has("listener",
		`{name: listener/8080, address: {socket_address: {address: 0.0.0.0, port_value: 8080}}}`)
}

func TestGatewayHTTPListenerIsolation_OnlyTheMostSpecificListenerAnswers(t *testing.T) {
	given(t,
		gatewayOf(
			"listeners: [{name: one, port: 8080, protocol: HTTP, hostname: a.example.com}, {name: wild, port: 8080, "+
				"protocol: HTTP, hostname: \"*.example.com\"}]"), services,
		"apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: web}\nspec: {parentRefs: "+
			"[{name: gw, sectionName: wild}], rules: [{"+toA+"}]}").
		has("route", `{domains: [a.example.com]}`).
		has("route", `{domains: ["*.example.com"], routes: [{match: {prefix: /}}]}`).
		hasNot("route", `{domains: [a.example.com], routes: [{match: {prefix: /}}]}`)
}

func TestTLSRouteModeTerminate_EndsTLSAtTheListener(t *testing.T) {
	secret, _ := certificate(t, "b.example.com")
	given(t,
		gatewayOf(
			"listeners: [{name: two, port: 8080, protocol: TLS, tls: {mode: Terminate, certificateRefs: "+
				"[{name: cert}]}}]"), services, secret,
		routeOf("TLSRoute", "hostnames: [b.example.com]\nrules: [{"+toA+"}]")).
		has("listener",
			`{name: tls/8080/b.example.com, filter_chain_match: {server_names: [b.example.com]}, transport_socket: {name: tls}, filters: [{typed_config: {weighted_clusters: {clusters: [{name: tcp/default/a/80}]}}}]}`).
		has("secret", `{name: secret/default/cert}`)
}

func TestTLSRouteModeMixed_PassesThroughAndTerminatesOnOnePort(t *testing.T) {
	secret, _ := certificate(t, "b.example.com")
	given(t,
		gatewayOf(
			"listeners:\n- {name: one, port: 8080, protocol: TLS, hostname: a.example.com, tls: {mode: "+
				"Passthrough}}\n- {name: two, port: 8080, protocol: TLS, hostname: b.example.com, tls: {mode: "+
				"Terminate, certificateRefs: [{name: cert}]}}"),
		services, secret, routeOf("TLSRoute", "hostnames: [a.example.com, b.example.com]\nrules: [{"+toA+"}]")).
		has("listener",
			`{name: tls/8080/a.example.com, filters: [{typed_config: {weighted_clusters: {clusters: [{name: passthrough/default/a/80}]}}}]}`).
		hasNot("listener", `{name: tls/8080/a.example.com, transport_socket: {name: tls}}`).
		has("listener",
			`{name: tls/8080/b.example.com, transport_socket: {name: tls}, filters: [{typed_config: {weighted_clusters: {clusters: [{name: tcp/default/a/80}]}}}]}`)
}

func twoHosts(t *testing.T, spec, backend string) *translation {
	t.Helper()
	secret, ca := certificate(t, "a.example.com")
	return given(t, gatewayOf(spec+`
listeners:
- {name: one, port: 8443, protocol: HTTPS, hostname: a.example.com, tls: {certificateRefs: [{name: cert}]}}
- {name: two, port: 8443, protocol: HTTPS, hostname: b.example.com, tls: {certificateRefs: [{name: cert}]}}`), services, secret, ca, route("rules: [{"+toA+"}]"), backend)
}

func TestGatewayHTTPSListenerDetectMisdirectedRequests_AnswersAnotherListenersHost421(t *testing.T) {
	twoHosts(t, "", "").has("route",
		`{name: https/8443/a.example.com~2, virtual_hosts: [{domains: [b.example.com], routes: [{direct_response: {status: 421}}]}]}`)
}

func TestGatewayFrontendClientCertificateValidation_RequiresACertificate(t *testing.T) {
	twoHosts(t,
		`tls: {frontend: {default: {validation: {caCertificateRefs: [{group: "", kind: ConfigMap, name: ca}]}}}}`, "").
		has("listener",
			`{require_client_certificate: true, common_tls_context: {combined_validation_context: {validation_context_sds_secret_config: {name: trust/gateway/default/gw/0}}}}`).
		hasNot("listener", `{trust_chain_verification: ACCEPT_UNTRUSTED}`)
}

func TestGatewayFrontendClientCertificateValidationInsecureFallback_AcceptsOthers(t *testing.T) {
	twoHosts(t,
		`tls: {frontend: {default: {validation: {mode: AllowInsecureFallback, caCertificateRefs: [{group: "", kind: ConfigMap, name: ca}]}}}}`, "").
		has("listener",
			`{common_tls_context: {combined_validation_context: {default_validation_context: {trust_chain_verification: ACCEPT_UNTRUSTED}}}}`).
		hasNot("listener", `{require_client_certificate: true}`)
}

func TestGatewayBackendClientCertificate_IsPresentedToTLSBackends(t *testing.T) {
	twoHosts(t, `tls: {backend: {clientCertificateRef: {name: cert}}}`, `apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {name: a}
spec:
  targetRefs: [{group: "", kind: Service, name: a}]
  validation: {hostname: a.example.com, wellKnownCACertificates: System}`).
		has("cluster",
			`{sni: a.example.com, common_tls_context: {tls_certificate_sds_secret_configs: [{name: secret/default/cert}]}}`)
}
