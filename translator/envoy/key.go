package envoy

import (
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	injectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/credential_injector/v3"
	upstreamcodecv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/upstream_codec/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	genericv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/injected_credentials/generic/v3"
)

// carry adds a secret to each request to a cluster as a bearer token. It belongs to the cluster,
// not to the filters that call it, so that a new secret changes neither.
func (b *builder) carry(secret string) []*hcmv3.HttpFilter {
	filter := func(name string, config *hcmv3.HttpFilter_TypedConfig) *hcmv3.HttpFilter {
		return &hcmv3.HttpFilter{Name: name, ConfigType: config}
	}
	return []*hcmv3.HttpFilter{
		filter("envoy.filters.http.credential_injector",
			&hcmv3.HttpFilter_TypedConfig{TypedConfig: b.any(&injectorv3.CredentialInjector{
				Overwrite: true,
				Credential: &corev3.TypedExtensionConfig{Name: "envoy.http.injected_credentials.generic",
					TypedConfig: b.any(&genericv3.Generic{
						Credential: b.sds(secret), Header: "authorization", HeaderValuePrefix: "Bearer ",
					})},
			})}),
		filter("envoy.filters.http.upstream_codec",
			&hcmv3.HttpFilter_TypedConfig{TypedConfig: b.any(&upstreamcodecv3.UpstreamCodec{})}),
	}
}
