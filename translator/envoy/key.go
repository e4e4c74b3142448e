package envoy

import (
	mutationv3 "github.com/envoyproxy/go-control-plane/envoy/config/common/mutation_rules/v3"
	injectorv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/credential_injector/v3"
	headersv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/header_mutation/v3"
	hcmv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	genericv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/http/injected_credentials/generic/v3"

	"github.com/penstock-project/penstock/translator/model"
)

// The cluster's upstream filters add the token, so a new secret changes no filter that calls the
// cluster.
func (b *builder) carry(secret string) []*hcmv3.HttpFilter {
	return []*hcmv3.HttpFilter{b.inject(secret, authorization), b.upstreamCodec()}
}

const authorization = "authorization"

func (b *builder) inject(secret, header string) *hcmv3.HttpFilter {
	how := &genericv3.Generic{Credential: b.sds(secret), Header: header}
	if header == authorization {
		how.HeaderValuePrefix = "Bearer "
	}
	return b.httpFilter("envoy.filters.http.credential_injector", &injectorv3.CredentialInjector{
		Overwrite:  true,
		Credential: b.extension("envoy.http.injected_credentials.generic", how),
	})
}

// credential returns the upstream filters of a cluster whose model servers require a key. They
// replace the router's upstream filters, so they include ofServers.
func (b *builder) credential(c *model.Credential) []*hcmv3.HttpFilter {
	var remove []*mutationv3.HeaderMutation
	for _, name := range []string{authorization, "x-api-key", "api-key"} {
		remove = append(remove, removeHeader(name))
	}
	filters := b.ofServers()
	return append(filters, b.httpFilter("credentials", &headersv3.HeaderMutation{
		Mutations: &headersv3.Mutations{RequestMutations: remove},
	}), b.inject(c.Secret, c.Header), b.upstreamCodec())
}
