package envoy

import (
	injectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/credential_injector/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	genericv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/injected_credentials/generic/v3"
)

// The token belongs to the cluster, so that a new secret does not change the filters that call the
// cluster.
func (b *builder) carry(secret string) []*hcmv3.HttpFilter {
	return []*hcmv3.HttpFilter{
		b.httpFilter("envoy.filters.http.credential_injector", &injectorv3.CredentialInjector{
			Overwrite: true,
			Credential: b.extension("envoy.http.injected_credentials.generic", &genericv3.Generic{
				Credential: b.sds(secret), Header: "authorization", HeaderValuePrefix: "Bearer ",
			}),
		}),
		b.upstreamCodec(),
	}
}
